// Which NUMA nodes a machine has, from files like those of the kernel.
#include "daemon/base/numa_topology.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace {

using simm::base::NumaTopology;

// A directory that stands for "/".
class FakeNodes {
public:
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = root_.path() + "/sys/devices/system/node/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void add(int node, const std::string& cpus, const std::string& kib) const {
    const std::string number = std::to_string(node);
    write("node" + number + "/cpulist", cpus + "\n");
    write("node" + number + "/meminfo", "Node " + number + " MemFree:  1 kB\nNode " + number +
                                            " MemTotal:       " + kib + " kB\n");
  }
  NumaTopology read() const { return NumaTopology::read(root_.path()); }

private:
  const simm::test_support::TemporaryDirectory root_;
};

}  // namespace

TEST_CASE("NUMA: two sockets with interleaved threads, and a node of memory alone") {
  const FakeNodes host;
  host.add(0, "0-31,64-95", "1073741824");
  host.add(1, "32-63,96-127", "1073741824");
  host.add(2, "", "536870912");
  host.write("possible", "0-2\n");
  const NumaTopology topology = host.read();
  CHECK(topology.nodes() == 3);
  CHECK(topology.node_of(0) == 0);
  CHECK(topology.node_of(31) == 0);
  CHECK(topology.node_of(32) == 1);
  CHECK(topology.node_of(95) == 0);
  CHECK(topology.node_of(127) == 1);
  CHECK(topology.node_of(128) == -1);
  CHECK(topology.bytes_of(1) == std::uint64_t{1} << 40);
  CHECK(topology.bytes_of(2) == std::uint64_t{1} << 39);
  CHECK(topology.bytes_of(3) == 0);
}

TEST_CASE("NUMA: a machine that does not say has no node, and nonsense is none") {
  CHECK(FakeNodes().read().nodes() == 0);
  CHECK(FakeNodes().read().node_of(0) == -1);
  const FakeNodes host;
  host.write("node0/cpulist", "3-1,x,5,-2,7-99999999\n");
  host.write("node0/meminfo", "garbage\n");
  host.write("nodeless/cpulist", "1\n");
  const NumaTopology topology = host.read();
  CHECK(topology.nodes() == 1);
  CHECK(topology.bytes_of(0) == 0);
  CHECK(topology.node_of(5) == 0);
  CHECK(topology.node_of(1) == -1);
  CHECK(topology.node_of(7) == -1);
}
