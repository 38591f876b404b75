// The one range check of the project for offsets and lengths that come from outside. It subtracts,
// so no value can make it overflow.
// Thread: any.
#pragma once

#include <cstdint>

namespace simm::ipc {

// True when [offset, offset + length) lies inside [0, limit). Units are the caller's, all the same.
[[nodiscard]] constexpr bool range_within(std::uint64_t offset, std::uint64_t length,
                                          std::uint64_t limit) noexcept {
  return length <= limit && offset <= limit - length;
}

}  // namespace simm::ipc
