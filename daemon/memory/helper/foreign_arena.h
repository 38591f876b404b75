// ForeignArena: the memory of the pool as the workers of foreign regions get it: to read, so that
// they copy out of it into their client without a stop in between. Borrowed; outlives every copier.
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ipc/range.h"

namespace simm::memory {

struct ForeignArena {
  int fd = -1;                       // of the whole file, open for reading and nothing else
  std::span<const std::byte> bytes;  // the daemon's own mapping of it

  // True when [own, own + length) lies in the arena, and where. Any pointer may be asked about.
  [[nodiscard]] bool find(const std::byte* own, std::uint64_t length,
                          std::uint64_t& offset) const noexcept {
    // SAFETY: numbers, not pointers: `own` may point into something else. What wraps around is
    // larger than any arena.
    offset = reinterpret_cast<std::uintptr_t>(own) - reinterpret_cast<std::uintptr_t>(bytes.data());
    return ipc::range_within(offset, length, bytes.size());
  }
};

}  // namespace simm::memory
