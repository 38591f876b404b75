// Arithmetic of free-running 32-bit ring cursors. Wrapping is intended here and nowhere else, so
// the fuzz build's unsigned-overflow sanitizer is switched off for exactly these two functions.
// Thread: any.
#pragma once

#include <cstdint>

#if defined(__clang__)
#define SIMM_WRAPPING __attribute__((no_sanitize("unsigned-integer-overflow")))
#else
#define SIMM_WRAPPING
#endif

namespace simm::ipc {

// Entries between head and tail. Above the capacity of the ring, one of the two is a lie.
[[nodiscard]] SIMM_WRAPPING constexpr std::uint32_t cursor_distance(std::uint32_t tail,
                                                                    std::uint32_t head) noexcept {
  return tail - head;
}

[[nodiscard]] SIMM_WRAPPING constexpr std::uint32_t cursor_next(std::uint32_t cursor) noexcept {
  return cursor + 1;
}

}  // namespace simm::ipc
