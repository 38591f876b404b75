// NumaTopology: the NUMA nodes of this machine: how much memory each has, and which CPUs are near
// it (/sys/devices/system/node). Read once at start. A machine that does not say has no node.
// Thread: any; a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace simm::base {

class NumaTopology {
public:
  // `root` is the directory that stands for "/": tests bring their own /sys.
  static NumaTopology read(const std::string& root = "");

  [[nodiscard]] std::size_t nodes() const noexcept { return bytes_.size(); }
  // All of the node's memory, in use or not; 0: there is no such node, or it has none.
  [[nodiscard]] std::uint64_t bytes_of(int node) const noexcept;
  // -1: no node has that CPU.
  [[nodiscard]] int node_of(int cpu) const noexcept;

private:
  std::map<int, std::uint64_t> bytes_;  // by node
  std::map<int, int> node_of_;          // by CPU
};

}  // namespace simm::base
