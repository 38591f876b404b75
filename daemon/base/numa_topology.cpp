#include "daemon/base/numa_topology.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace simm::base {
namespace {

constexpr int kCpusMax = 65'536;

// "Node 1 MemTotal:       1056555008 kB" of a node's meminfo.
std::uint64_t total_bytes(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "Node %*d MemTotal: %llu kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

// Calls visit(cpu) for each one of a list as "0-31,64-95".
template <typename Visit>
void visit_cpus(const std::string& path, Visit&& visit) {
  std::ifstream file(path);
  std::string list;
  std::getline(file, list);
  std::istringstream parts(list);
  std::string part;
  while (std::getline(parts, part, ',')) {
    int first = 0;
    int last = 0;
    const int read = std::sscanf(part.c_str(), "%d-%d", &first, &last);
    if (read == 1) last = first;
    if (read < 1 || first < 0 || last >= kCpusMax) continue;
    for (int cpu = first; cpu <= last; ++cpu) visit(cpu);
  }
}

}  // namespace

NumaTopology NumaTopology::read(const std::string& root) {
  NumaTopology topology;
  std::error_code error;
  const std::string nodes = root + "/sys/devices/system/node";
  for (const auto& entry : std::filesystem::directory_iterator(nodes, error)) {
    int node = 0;
    int end = 0;
    const std::string name = entry.path().filename();
    if (std::sscanf(name.c_str(), "node%d%n", &node, &end) != 1 ||
        static_cast<std::size_t>(end) != name.size()) {
      continue;
    }
    topology.bytes_[node] = total_bytes(entry.path() / "meminfo");
    visit_cpus(entry.path() / "cpulist", [&](int cpu) { topology.node_of_[cpu] = node; });
  }
  return topology;
}

std::uint64_t NumaTopology::bytes_of(int node) const noexcept {
  const auto found = bytes_.find(node);
  return found == bytes_.end() ? 0 : found->second;
}

int NumaTopology::node_of(int cpu) const noexcept {
  const auto found = node_of_.find(cpu);
  return found == node_of_.end() ? -1 : found->second;
}

}  // namespace simm::base
