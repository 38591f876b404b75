#include "libclient/memory_map.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cinttypes>
#include <cstdio>

namespace simm::detail {

bool find_mapping(std::uint64_t address, MapsLine& out) noexcept {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  bool found = false;
  char line[512];
  while (!found && std::fgets(line, sizeof line, maps) != nullptr) {
    found = std::sscanf(line,
                        "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64,
                        &out.start, &out.end, out.permissions, &out.offset, &out.device_major,
                        &out.device_minor, &out.inode) == 7 &&
            out.start <= address && address < out.end;
  }
  std::fclose(maps);
  return found;
}

bool any_read_only(const void* address, std::uint64_t bytes) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  MapsLine line;
  for (std::uint64_t at = start; at - start < bytes; at = line.end) {
    if (!find_mapping(at, line)) return false;
    if (!line.is_writable()) return true;
  }
  return false;
}

bool is_mapping_of(int fd, std::uint64_t offset, const void* address,
                   std::uint64_t bytes) noexcept {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return false;
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  MapsLine line;
  for (std::uint64_t at = start; at - start < bytes; at = line.end) {
    if (!find_mapping(at, line) || !line.is_shared()) return false;
    const bool same_file = line.inode == file.st_ino && line.device_major == major(file.st_dev) &&
                           line.device_minor == minor(file.st_dev);
    if (!same_file || line.offset + (at - line.start) != offset + (at - start)) return false;
  }
  return true;
}

}  // namespace simm::detail
