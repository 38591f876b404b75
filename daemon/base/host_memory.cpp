#include "daemon/base/host_memory.h"

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "daemon/base/byte_size.h"

namespace simm::base {
namespace {

// A number at the start of the file's first line. Nothing: it is "max", there is no file, or no
// memory is that large (cgroup v1 writes the largest page count for "no limit").
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), value);
  if (parsed.ec != std::errc() || value >= std::uint64_t{1} << 62) return std::nullopt;
  return value;
}

// "MemTotal:       24576000 kB" of /proc/meminfo.
std::uint64_t machine_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  while (file >> name) {
    if (name == "MemTotal:" && file >> kib) return kib * 1024;
    file.ignore(256, '\n');
  }
  return 0;
}

}  // namespace

HostMemory HostMemory::read(const std::string& root) {
  HostMemory memory;
  memory.limit(machine_bytes(root), "this machine has ");
  // Lines "0::/path" (v2) and "<n>:<controllers>:/path" (v1); cgroups(7).
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    std::istringstream fields(line);
    std::string number;
    std::string controllers;
    std::string path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    const bool is_v2 = number == "0" && controllers.empty();
    if (!is_v2 && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    const std::string mounted = root + (is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    const char* const file = is_v2 ? "/memory.max" : "/memory.limit_in_bytes";
    // Every group above limits as well. In a container the path is the host's and its files are not
    // there: the top one is the container's own.
    while (!path.empty()) {
      const std::string folder = path == "/" ? "" : path;
      if (const auto bytes = number_in(mounted + folder + file)) {
        memory.limit(*bytes, "the control group " + path + " allows ");
      }
      const std::size_t parent = folder.rfind('/');
      path = folder.empty()                               ? ""
             : parent == 0 || parent == std::string::npos ? "/"
                                                          : folder.substr(0, parent);
    }
  }
  return memory;
}

void HostMemory::limit(std::uint64_t bytes, const std::string& who) {
  if (!origin_.empty() && bytes >= bytes_) return;
  bytes_ = bytes;
  origin_ = who + format_bytes(bytes);
}

}  // namespace simm::base
