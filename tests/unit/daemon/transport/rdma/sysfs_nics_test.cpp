// NICs read from trees that look like the /sys of servers, and which of them are near to what.
#include "daemon/transport/rdma/device/sysfs_nics.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/sysfs_tree.h"

namespace sysfs_nics_test {

using namespace simm::transport;
using support::SysfsPort;
using support::SysfsTree;
using Indices = std::vector<std::size_t>;

SysfsPort with_state(const std::string& state) {
  SysfsPort port;
  port.state = state;
  return port;
}

// Two sockets with four PCI switches each; under every switch a NIC and a GPU.
void add_eight(SysfsTree& tree) {
  for (int i = 0; i < 8; ++i) {
    const std::string bus = "0000:" + std::to_string(10 + i);
    const std::string bridge = "pci" + bus + "/" + bus + ":01.0/0000:" + std::to_string(20 + i);
    tree.add_nic("mlx5_" + std::to_string(i), bridge + ":00.0/0000:3" + std::to_string(i) + ":00.0",
                 i / 4);
    tree.add_gpu(bridge + ":00.0/0000:4" + std::to_string(i) + ":00.0", i / 4);
  }
}

TEST_CASE("nics: one NIC of one node is read whole, and near to everything") {
  SysfsTree tree(2);
  SysfsPort port;
  port.link_layer = "Ethernet";
  port.rate = "200 Gb/sec (4X HDR)";
  port.net_device = "ens1f0np0";
  tree.add_nic("mlx5_0", "pci0000:16/0000:16:02.0/0000:17:00.0", 1, port);
  const NicTable table = read_nics(tree.root());
  REQUIRE(table.nics().size() == 1);
  const Nic& nic = table.nics()[0];
  CHECK(nic.device == "mlx5_0");
  CHECK(nic.port == 1);
  CHECK(nic.net_device == "ens1f0np0");
  CHECK(nic.state == NicState::active);
  CHECK(nic.link_layer == LinkLayer::ethernet);
  CHECK(nic.speed_mbit_s == 200'000);
  CHECK(nic.numa_node == 1);
  CHECK(nic.pci_path == PciPath{"pci0000:16", "0000:16:02.0", "0000:17:00.0"});
  CHECK(table.nodes() == std::vector<std::int32_t>{0, 1});
  CHECK(table.near_node(0) == Indices{0});
  CHECK(table.near_node(1) == Indices{0});
  CHECK(table.near_node(-1) == Indices{0});
}

TEST_CASE("nics: four NICs of two nodes, of which one is down") {
  SysfsTree tree(2);
  tree.add_nic("mlx5_0", "pci0000:10/0000:11:00.0", 0);
  tree.add_nic("mlx5_1", "pci0000:20/0000:21:00.0", 0);
  tree.add_nic("mlx5_2", "pci0000:30/0000:31:00.0", 1, with_state("1: DOWN"));
  tree.add_nic("mlx5_3", "pci0000:40/0000:41:00.0", 1);
  tree.add_gpu("pci0000:30/0000:32:00.0", 1);  // beside the NIC that is down
  tree.add_gpu("pci0000:50/0000:51:00.0", 0);  // beside none
  // The console of the server is no GPU.
  tree.add_pci("pci0000:00/0000:01:00.0", 0, "0x1a03", "0x030000");
  NicTable table = read_nics(tree.root());
  REQUIRE(table.nics().size() == 4);
  REQUIRE(table.gpus().size() == 2);
  CHECK(table.gpus()[0].pci_address == "0000:32:00.0");
  CHECK(table.near_node(0) == Indices{0, 1});
  CHECK(table.near_node(1) == Indices{3});
  CHECK(table.near_gpu(0) == Indices{3});     // its switch's NIC is down: that of its node
  CHECK(table.near_gpu(1) == Indices{0, 1});  // of its node
  CHECK(table.near_node(7) == Indices{0, 1, 3});

  // It comes back, and the other one of its node goes.
  tree.write("class/infiniband/mlx5_2/ports/1/state", "4: ACTIVE");
  tree.write("class/infiniband/mlx5_3/ports/1/state", "2: INIT");
  table = read_nics(tree.root());
  CHECK(table.near_node(1) == Indices{2});
  CHECK(table.near_gpu(0) == Indices{2});
}

TEST_CASE("nics: eight NICs and eight GPUs, each pair under a switch of its own") {
  SysfsTree tree(2);
  add_eight(tree);
  const NicTable table = read_nics(tree.root());
  REQUIRE(table.nics().size() == 8);
  REQUIRE(table.gpus().size() == 8);
  for (std::size_t i = 0; i < 8; ++i) CHECK(table.near_gpu(i) == Indices{i});
  CHECK(table.near_node(0) == Indices{0, 1, 2, 3});
  CHECK(table.near_node(1) == Indices{4, 5, 6, 7});
}

TEST_CASE("nics: the nearest switch counts, not only the root complex") {
  SysfsTree tree(1);
  tree.add_nic("near_0", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0", 0);
  tree.add_nic("far_0", "pci0000:10/0000:10:02.0/0000:13:00.0", 0);
  tree.add_gpu("pci0000:10/0000:10:01.0/0000:11:00.0/0000:14:00.0", 0);
  const NicTable table = read_nics(tree.root());
  REQUIRE(table.nics().size() == 2);
  const Indices near = table.near_gpu(0);
  REQUIRE(near.size() == 1);
  CHECK(table.nics()[near[0]].device == "near_0");
}

TEST_CASE("nics: they come in the order in which people count, with every port of theirs") {
  SysfsTree tree(1);
  for (const char* name : {"mlx5_10", "mlx5_2", "mlx5_0", "irdma0"}) {
    tree.add_nic(name, "", -1);
  }
  SysfsPort second;
  second.number = 2;
  tree.add_port("mlx5_2", second);
  std::vector<std::string> names;
  const NicTable table = read_nics(tree.root());
  for (const Nic& nic : table.nics()) {
    names.push_back(nic.device + ":" + std::to_string(nic.port));
  }
  CHECK(names ==
        std::vector<std::string>{"irdma0:1", "mlx5_0:1", "mlx5_2:1", "mlx5_2:2", "mlx5_10:1"});
}

TEST_CASE("nics: soft RoCE has neither node nor PCI path, and serves every memory") {
  SysfsTree tree(2);
  SysfsPort port;
  port.rate = "2.5 Gb/sec (1X SDR)";
  port.link_layer = "Ethernet";
  tree.add_nic("rxe0", "", -1, port);
  tree.add_gpu("pci0000:30/0000:32:00.0", 1);
  const NicTable table = read_nics(tree.root());
  REQUIRE(table.nics().size() == 1);
  CHECK(table.nics()[0].speed_mbit_s == 2500);
  CHECK(table.nics()[0].numa_node == -1);
  CHECK(table.nics()[0].pci_path.empty());
  CHECK(table.near_node(0) == Indices{0});
  CHECK(table.near_node(1) == Indices{0});
  CHECK(table.near_gpu(0) == Indices{0});
}

TEST_CASE("nics: what is not there or makes no sense is unknown, and never used") {
  CHECK(read_nics("/nonexistent/sys").nics().empty());
  SysfsTree tree(1);
  SysfsPort port;
  port.state = "all is well";
  port.link_layer = "Carrier pigeon";
  port.rate = "999999999999999999999999 Gb/sec";
  tree.add_nic("mlx5_0", "pci0000:10/0000:11:00.0", 0, port);
  tree.write("devices/pci0000:10/0000:11:00.0/numa_node", "zero");
  tree.add_nic("mlx5_1", "", -1);
  tree.remove("class/infiniband/mlx5_1/ports/1/state");
  tree.write("class/infiniband/mlx5_1/ports/1/rate", std::string(100'000, '7'));
  tree.write("class/infiniband/mlx5_1/ports/first/state", "4: ACTIVE");
  tree.write("class/infiniband/no_ports", "a file where a directory should be");
  tree.write("bus/pci/devices/garbage/vendor", "0x10de and more");
  const NicTable table = read_nics(tree.root());
  REQUIRE(table.nics().size() == 2);
  for (const Nic& nic : table.nics()) {
    CHECK(nic.state == NicState::unknown);
    CHECK(nic.numa_node == -1);
    CHECK(nic.speed_mbit_s == 0);
    CHECK_FALSE(nic.is_usable());
  }
  CHECK(table.nics()[0].link_layer == LinkLayer::unknown);
  CHECK(table.gpus().empty());
  CHECK(table.near_node(0).empty());
}

TEST_CASE("nics: a host with more than are looked at has the first ones") {
  SysfsTree tree(1);
  for (std::size_t i = 0; i < kNicsMax + 3; ++i) tree.add_nic("mlx5_" + std::to_string(i), "", -1);
  const NicTable table = read_nics(tree.root());
  REQUIRE(table.nics().size() == kNicsMax);
  CHECK(table.nics().back().device == "mlx5_" + std::to_string(kNicsMax - 1));
}

}  // namespace sysfs_nics_test
