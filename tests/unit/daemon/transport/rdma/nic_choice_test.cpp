// What the configuration says of the NICs of hosts, and which of them are near to what then.
#include "daemon/transport/rdma/device/nic_choice.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "daemon/transport/rdma/device/sysfs_nics.h"
#include "tests/support/sysfs_tree.h"

namespace nic_choice_test {

using namespace simm::transport;
using simm::base::NicConfig;
using Indices = std::vector<std::size_t>;

constexpr const char* kFirstGpu = "0000:13:00.0";
constexpr const char* kSecondGpu = "0000:23:00.0";

// Two sockets, each with a switch that has a NIC and a GPU; the second NIC has two ports.
NicTable two_sockets() {
  support::SysfsTree tree(2);
  support::SysfsPort ethernet;
  ethernet.link_layer = "Ethernet";
  ethernet.net_device = "ens1";
  support::SysfsPort second;
  second.number = 2;
  tree.add_nic("mlx5_0", "pci0000:10/0000:11:00.0/0000:12:00.0", 0, ethernet);
  tree.add_nic("mlx5_1", "pci0000:20/0000:21:00.0/0000:22:00.0", 1);
  tree.add_port("mlx5_1", second);
  tree.add_gpu("pci0000:10/0000:11:00.0/0000:13:00.0", 0);
  tree.add_gpu("pci0000:20/0000:21:00.0/0000:23:00.0", 1);
  return read_nics(tree.root());
}

Indices chosen(const NicTable& table) {
  Indices all;
  for (std::size_t i = 0; i < table.nics().size(); ++i) {
    if (table.nics()[i].is_chosen) all.push_back(i);
  }
  return all;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("nic choice: an empty list chooses all, as they were found") {
  const NicTable table = choose_nics(two_sockets(), {});
  CHECK(chosen(table) == Indices{0, 1, 2});
  CHECK(nic_problems(table).empty());
  for (const Nic& nic : table.nics()) CHECK(nic.configured.empty());
}

// As a server for training is built: eight ports for pages, two for storage, one for management.
TEST_CASE("nic choice: without a list, ports for something else are left out, and say why") {
  support::SysfsTree tree(2);
  const auto add = [&](int i, const support::SysfsPort& port) {
    const std::string bus = "0000:" + std::to_string(10 + i);
    tree.add_nic("mlx5_" + std::to_string(i), "pci" + bus + "/" + bus + ":01.0", i % 2, port);
  };
  support::SysfsPort storage;
  storage.rate = "200 Gb/sec (4X HDR)";
  support::SysfsPort management;
  management.link_layer = "Ethernet";
  management.rate = "100 Gb/sec (2X HDR)";
  for (int i = 0; i < 8; ++i) add(i, {});
  for (int i = 8; i < 10; ++i) add(i, storage);
  add(10, management);
  const NicTable table = choose_nics(read_nics(tree.root()), {});
  CHECK(chosen(table) == Indices{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(table.nics()[10].left_out == "less than half as fast as mlx5_0/1");
  CHECK(table.nics()[9].left_out.empty());
  CHECK(nic_problems(table).empty());
  // Nothing is near to it, and a list that names it chooses it all the same.
  for (const std::size_t nic : table.near_node(0)) CHECK(nic != 10);
  const NicTable named = choose_nics(read_nics(tree.root()), {{"mlx5_10", {}, {}, ""}});
  CHECK(chosen(named) == Indices{10});
  CHECK(named.nics()[10].left_out.empty());
  // What is down says nothing true of its speed.
  tree.write("class/infiniband/mlx5_10/ports/1/state", "1: DOWN");
  CHECK(chosen(choose_nics(read_nics(tree.root()), {})).size() == 11);
  // The fast ones are down: then the slow one is all there is.
  tree.write("class/infiniband/mlx5_10/ports/1/state", "4: ACTIVE");
  for (int i = 0; i < 10; ++i) {
    tree.write("class/infiniband/mlx5_" + std::to_string(i) + "/ports/1/state", "1: DOWN");
  }
  CHECK(choose_nics(read_nics(tree.root()), {}).nics()[10].is_chosen);
}

TEST_CASE("nic choice: a RoCE port without an IP address is left out beside one that has some") {
  support::SysfsTree tree(1);
  support::SysfsPort port;
  port.link_layer = "Ethernet";
  for (int i = 0; i < 3; ++i) tree.add_nic("rxe" + std::to_string(i), "", 0, port);
  const auto gid = [&](int nic, int index, const std::string& value, const std::string& kind) {
    const std::string at = "class/infiniband/rxe" + std::to_string(nic) + "/ports/1/";
    tree.write(at + "gids/" + std::to_string(index), value);
    tree.write(at + "gid_attrs/types/" + std::to_string(index), kind);
  };
  const std::string link_local = "fe80:0000:0000:0000:0202:c9ff:fe00:000";
  const std::string routed = "0000:0000:0000:0000:0000:ffff:0a00:0001";
  for (int i = 0; i < 2; ++i) {
    gid(i, 0, link_local + std::to_string(i), "IB/RoCE v1");
    gid(i, 1, link_local + std::to_string(i), "RoCE v2");
    gid(i, 2, "0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2");
  }
  // None has one: they may lie in one network. One without any address will not open, and says so.
  CHECK(chosen(choose_nics(read_nics(tree.root()), {})) == Indices{0, 1, 2});
  gid(1, 2, routed, "IB/RoCE v1");
  CHECK(chosen(choose_nics(read_nics(tree.root()), {})) == Indices{0, 1, 2});
  gid(1, 3, routed, "RoCE v2");
  const NicTable table = choose_nics(read_nics(tree.root()), {});
  CHECK(chosen(table) == Indices{1, 2});
  CHECK(table.nics()[0].left_out == "its interface has no IP address, and those of others have");
  CHECK(table.nics()[1].routed_gid == routed);
  CHECK(table.nics()[1].link_local_gid == link_local + "1");
}

TEST_CASE("nic choice: a list chooses what it names, and the others are near to nothing") {
  const NicTable found = two_sockets();
  CHECK(chosen(choose_nics(found, {{"mlx5_1", {}, {}, ""}})) == Indices{1, 2});
  const NicTable table = choose_nics(found, {{"mlx5_1/2", {}, {}, ""}});
  CHECK(chosen(table) == Indices{2});
  CHECK(table.near_node(0) == Indices{2});
  CHECK(table.near_gpu(0) == Indices{2});
  CHECK(table.nics()[2].configured.empty());
  CHECK(nic_problems(table).empty());
}

TEST_CASE("nic choice: values of the list take the place of what was found") {
  const NicTable table =
      choose_nics(two_sockets(), {{"mlx5_0", 1, 25, ""}, {"mlx5_1/1", {}, {}, ""}});
  CHECK(table.nics()[0].numa_node == 1);
  CHECK(table.nics()[0].speed_mbit_s == 25'000);
  CHECK(table.nics()[0].configured == std::vector<std::string>{"numa_node", "speed_gbit_s"});
  NicConfig own{"mlx5_0", {}, {}, ""};
  own.gid_index = 3;
  own.traffic_class = 106;
  const Nic mine = choose_nics(two_sockets(), {own}).nics()[0];
  CHECK(mine.gid_index == 3);
  CHECK(mine.traffic_class == 106u);
  CHECK_FALSE(mine.partition_key.has_value());
  CHECK(mine.configured == std::vector<std::string>{"gid_index", "traffic_class"});
  CHECK(table.near_node(1) == Indices{0, 1});
  CHECK(table.nics()[1].numa_node == 1);
  CHECK(table.nics()[1].speed_mbit_s == 400'000);
}

TEST_CASE("nic choice: a NIC of one GPU is near to it, and behind no switch of another one") {
  const NicTable found = two_sockets();
  CHECK(found.near_gpu(0) == Indices{0});
  const NicTable crossed = choose_nics(
      found, {{"mlx5_0", {}, {}, kSecondGpu}, {"mlx5_1/1", {}, {}, ""}, {"mlx5_1/2", {}, {}, ""}});
  CHECK(crossed.near_gpu(1) == Indices{0});
  // Nobody is left behind the first GPU's switch: then its NUMA node counts.
  CHECK(crossed.near_gpu(0) == Indices{0});
  CHECK(crossed.nics()[0].configured == std::vector<std::string>{"gpu"});
  const NicTable split =
      choose_nics(found, {{"mlx5_1/1", {}, {}, kFirstGpu}, {"mlx5_1/2", {}, {}, ""}});
  CHECK(split.near_gpu(0) == Indices{1});
  CHECK(split.near_gpu(1) == Indices{2});
}

TEST_CASE("nic choice: what the host has not is a problem of its row, with a remedy") {
  const NicTable table = choose_nics(two_sockets(), {{"mlx5_0", 7, {}, "0000:99:00.0"},
                                                     {"mlx5_1/3", {}, {}, ""},
                                                     {"mlx5_7", {}, 100, ""},
                                                     {"ens1", {}, {}, ""}});
  REQUIRE(table.nics().size() == 6);
  CHECK(table.nics()[3].state == NicState::missing);
  CHECK_FALSE(table.nics()[4].is_usable());
  // The nodes and GPUs that there are go on having the nearest NIC that there is.
  CHECK(table.near_gpu(0) == Indices{0});
  const std::vector<std::string> problems = nic_problems(table);
  REQUIRE(problems.size() == 4);
  CHECK(holds(problems[0], "mlx5_0/1: this host has no NUMA node 7"));
  CHECK(holds(problems[0], "no GPU at 0000:99:00.0; there are: 0000:13:00.0, 0000:23:00.0"));
  CHECK(holds(problems[1], "mlx5_1/3: this host has no such RDMA device"));
  CHECK(holds(problems[1], "there are: mlx5_0/1, mlx5_1/1, mlx5_1/2"));
  CHECK(holds(problems[2], "mlx5_7: "));
  CHECK(holds(problems[3],
              "ens1: this host has no such RDMA device; that is a network device of "
              "mlx5_0"));
  const NicTable none = choose_nics(NicTable({}, {}, {0}), {{"mlx5_0", {}, {}, ""}});
  CHECK(holds(nic_problems(none).at(0), "there are: none"));
}

}  // namespace nic_choice_test
