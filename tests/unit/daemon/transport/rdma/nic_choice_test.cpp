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
