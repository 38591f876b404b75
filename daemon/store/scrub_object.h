// ScrubObject: an object as a scrubber remembers it between two turns. It holds no pin, so
// scrubbing delays neither eviction nor a replacement. At each look the object may be gone, or its
// record another one's. Generations are never used twice, and an object's bytes do not change, also
// when they move. Thread: the data agent of the store.
#pragma once

#include <cstdint>

#include "daemon/base/ids.h"
#include "daemon/base/key_hash.h"
#include "daemon/store/space/table.h"

namespace simm::store {

enum class ScrubLook : std::uint8_t {
  nothing,  // no object has this number
  object,
  damaged,  // its record was, and the object is quarantined
};

struct ScrubObject {
  std::uint32_t record = kNone;
  std::uint64_t generation = 0;
  std::uint64_t digest = 0;  // xxh3-64 it was published with
  std::uint64_t length = 0;
  std::uint64_t offset = 0;  // in the arena, at that look
  base::KeyHash hash;
  base::TenantId tenant;
};

}  // namespace simm::store
