// What `simmctl nics --check` finds on made-up hosts.
#include "daemon/admin/nic_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "daemon/transport/rdma/device/nic_choice.h"
#include "daemon/transport/rdma/device/sysfs_nics.h"
#include "tests/support/sysfs_tree.h"

namespace nic_checks_test {

using namespace simm;
using control::NicCheck;
using transport::RailProgress;

struct Host {
  explicit Host(int nodes = 2) : tree(nodes) {
    add("mlx5_0", "pci0000:10/0000:11:00.0", "ens0");
    add("mlx5_1", "pci0000:20/0000:21:00.0", "ens1");
  }
  void add(const std::string& name, const std::string& path, const std::string& net) {
    support::SysfsPort port;
    port.link_layer = "Ethernet";
    port.net_device = net;
    tree.add_nic(name, path, 0, port);
    const std::string device = "devices/" + path + "/";
    for (const std::string which : {"current", "max"}) {
      tree.write(device + which + "_link_speed", "32.0 GT/s PCIe");
      tree.write(device + which + "_link_width", "16");
    }
    tree.write("class/net/" + net + "/mtu", "9000");
    const std::string at = "class/infiniband/" + name + "/ports/1/";
    tree.write(at + "gids/0", "fe80:0000:0000:0000:0202:c9ff:fe00:0001");
    tree.write(at + "gid_attrs/types/0", "RoCE v2");
    tree.write(at + "gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001");
    tree.write(at + "gid_attrs/types/3", "RoCE v2");
  }
  std::vector<NicCheck> all() const {
    const auto table = transport::choose_nics(transport::read_nics(tree.root()), config);
    return control::check_nics(table, rails, {tree.root(), lockable_bytes, verbs_trouble});
  }
  // "mlx5_0/1 state" of those that are not fine; each has a remedy, and no other one has.
  std::set<std::string> bad() const {
    std::set<std::string> found;
    for (const NicCheck& check : all()) {
      CAPTURE(check.nic);
      CAPTURE(check.check);
      CHECK(check.remedy.empty() == check.is_fine);
      CHECK_FALSE(check.found.empty());
      CHECK_FALSE(check.expected.empty());
      if (!check.is_fine) found.insert(check.nic + " " + check.check);
    }
    return found;
  }
  NicCheck one(const std::string& nic, const std::string& check) const {
    for (NicCheck& its : all()) {
      if (its.nic == nic && its.check == check) return its;
    }
    FAIL("there is no such check");
    return {};
  }

  support::SysfsTree tree;
  std::vector<base::NicConfig> config;
  std::vector<RailProgress> rails;
  std::uint64_t lockable_bytes = ~std::uint64_t{0};
  std::string verbs_trouble;
};

using Bad = std::set<std::string>;

TEST_CASE("nic checks: a host as it should be") {
  Host host;
  host.rails = {{.name = "mlx5_0/1", .wanted_bytes = 5, .registered_bytes = 5},
                {.name = "mlx5_1/1"}};
  CHECK(host.bad().empty());
  std::set<std::string> checks;
  for (const NicCheck& check : host.all()) checks.insert(check.check);
  CHECK(checks == Bad{"devices", "gid", "libibverbs", "locked_memory", "mtu", "numa_node", "pcie",
                      "rail", "registered", "speed", "state"});
  CHECK(host.one("mlx5_0/1", "gid").found == "0000:0000:0000:0000:0000:ffff:0a00:0001");
  CHECK(host.one("mlx5_0/1", "pcie").found == "32.0 GT/s PCIe x16");
}

TEST_CASE("nic checks: a host with NICs and without libibverbs") {
  Host host;
  host.verbs_trouble = "RDMA needs libibverbs.so.1: install libibverbs1";
  CHECK(host.bad() == Bad{"host libibverbs"});
  CHECK(host.one("host", "libibverbs").remedy == host.verbs_trouble);
}

TEST_CASE("nic checks: each thing that is wrong is named, with what to do") {
  Host host;
  const std::string port = "class/infiniband/mlx5_1/ports/1/";
  host.tree.write(port + "state", "1: DOWN");
  CHECK(host.bad() == Bad{"mlx5_1/1 state"});
  CHECK(host.one("mlx5_1/1", "state").remedy.find("ip link set ens1 up") != std::string::npos);
  host.tree.write(port + "state", "2: INIT");
  CHECK(host.one("mlx5_1/1", "state").remedy.find("subnet manager") != std::string::npos);
  host.tree.write(port + "state", "4: ACTIVE");
  host.tree.write(port + "rate", "200 Gb/sec (4X HDR)");
  CHECK(host.bad() == Bad{"mlx5_1/1 speed"});
  // Slower still, it is for something else, and not looked at.
  host.tree.write(port + "rate", "100 Gb/sec (4X EDR)");
  CHECK(host.bad().empty());
  CHECK(host.one("mlx5_1/1", "used").found == "left out: less than half as fast as mlx5_0/1");
  host.tree.write(port + "rate", "400 Gb/sec (4X NDR)");
  host.tree.write("class/net/ens1/mtu", "1500");
  CHECK(host.bad() == Bad{"mlx5_1/1 mtu"});
  CHECK(host.one("mlx5_1/1", "mtu").found == "1500");
  host.tree.write("class/net/ens1/mtu", "4200");
  CHECK(host.bad().empty());
  host.tree.remove(port + "gids/3");
  CHECK(host.bad() == Bad{"mlx5_1/1 gid"});
  host.tree.write(port + "gids/3", "0000:0000:0000:0000:0000:0000:0000:0000");
  CHECK(host.bad() == Bad{"mlx5_1/1 gid"});
  host.tree.write(port + "gids/3", "2001:0db8:0000:0000:0000:0000:0000:0001");
  CHECK(host.bad().empty());
  host.tree.write(port + "gid_attrs/types/3", "IB/RoCE v1");
  CHECK(host.bad() == Bad{"mlx5_1/1 gid"});
  host.tree.write(port + "gid_attrs/types/3", "RoCE v2");
  host.tree.write("devices/pci0000:20/0000:21:00.0/current_link_width", "8");
  CHECK(host.bad() == Bad{"mlx5_1/1 pcie"});
  host.tree.write("devices/pci0000:20/0000:21:00.0/current_link_width", "16");
  host.tree.write("devices/pci0000:20/0000:21:00.0/numa_node", "-1");
  CHECK(host.bad() == Bad{"mlx5_1/1 numa_node"});
}

TEST_CASE("nic checks: locked memory, missing devices, and what a daemon makes of its ports") {
  Host host(1);
  host.lockable_bytes = 8 << 20;
  CHECK(host.bad() == Bad{"host locked_memory"});
  host.lockable_bytes = ~std::uint64_t{0};
  host.rails = {{.name = "mlx5_0/1", .state = "down", .trouble = "set its link up"},
                {.name = "mlx5_1/1", .wanted_bytes = 10, .registered_bytes = 5, .failed_bytes = 5}};
  CHECK(host.bad() == Bad{"mlx5_0/1 rail", "mlx5_1/1 registered"});
  CHECK(host.one("mlx5_0/1", "rail").remedy == "set its link up");
  CHECK(host.one("mlx5_1/1", "registered").remedy.find("simmctl errors") == 0);
  host.rails.clear();
  // Only what the configuration has chosen is looked at.
  host.tree.write("class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  host.config.resize(2);
  host.config[0].name = "mlx5_0";
  host.config[1].name = "mlx5_9";
  CHECK(host.bad() == Bad{"mlx5_9/1 state"});
  CHECK(host.one("mlx5_9/1", "state").remedy.find("no such RDMA device") != std::string::npos);
  const support::SysfsTree nothing(1);
  const auto table = transport::read_nics(nothing.root());
  // Without a device nobody needs the library.
  const auto checks = control::check_nics(table, {}, {nothing.root(), ~std::uint64_t{0}, "absent"});
  REQUIRE(checks.size() == 2);
  CHECK(checks[0].check == "devices");
  CHECK_FALSE(checks[0].is_fine);
}

}  // namespace nic_checks_test
