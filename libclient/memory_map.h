// MapsLine: one mapping of this process, as the kernel lists it. For set-up and for taking pages
// back, not for the data path: to find one reads /proc/self/maps.
// Thread: any; plain values, true at the time of the look.
#pragma once

#include <cstdint>

namespace simm::detail {

struct MapsLine {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file, of `start`
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint64_t inode = 0;
  char permissions[5] = "";

  [[nodiscard]] bool is_shared() const noexcept { return permissions[3] == 's'; }
  [[nodiscard]] bool is_writable() const noexcept { return permissions[1] == 'w'; }
};

// The mapping that holds the address. False: there is none, or the list can not be read.
[[nodiscard]] bool find_mapping(std::uint64_t address, MapsLine& out) noexcept;

// Whether a part of the range is mapped and may not be written.
[[nodiscard]] bool any_read_only(const void* address, std::uint64_t bytes) noexcept;

// Whether the range is a shared mapping of the file, from that offset on.
[[nodiscard]] bool is_mapping_of(int fd, std::uint64_t offset, const void* address,
                                 std::uint64_t bytes) noexcept;

}  // namespace simm::detail
