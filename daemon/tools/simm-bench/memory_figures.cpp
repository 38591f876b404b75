#include "daemon/tools/simm-bench/memory_figures.h"

#include <fstream>
#include <string>

namespace simm::bench {
namespace {

std::uint64_t figure(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    std::uint64_t kib = 0;
    if (word == name && file >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t private_bytes() {
  return figure("/proc/self/status", "RssAnon:");
}

std::uint64_t available_bytes() {
  return figure("/proc/meminfo", "MemAvailable:");
}

}  // namespace simm::bench
