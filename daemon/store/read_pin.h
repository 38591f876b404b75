// ReadPin: an object whose bytes stay where they are until the pin ends.
// Thread: the data agent of the store; a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/store/space/table.h"

namespace simm::store {

// A pinned object. `record` is the store's own name of it.
struct ReadPin {
  std::uint32_t record = kNone;
  std::span<const std::byte> bytes;  // the whole payload
  std::uint64_t digest = 0;          // xxh3-64 it was published with
  std::uint64_t generation = 0;
  bool unverified = false;  // of an earlier life: compare before a byte of it is believed
};

}  // namespace simm::store
