// HotTable: the keys that a shard is asked for most, at one moment; HotTables: how the newest one
// reaches the control thread. Keys are hashes (key_hash.h), never names. Plain numbers.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/space_saving.h"
#include "daemon/base/triple_buffer.h"

namespace simm::base {

// By one measure: of pages asked for, or of bytes moved.
struct HotList {
  std::array<SpaceSaving::Entry, SpaceSaving::kHotKeysCounted> entries;  // in no order
  std::uint32_t count = 0;                                               // of those, in use
  std::uint32_t total = 0;                                               // as the counts are scaled
};

struct HotTable {
  HotList requests;
  HotList bytes;
};

using HotTables = TripleBuffer<HotTable>;

}  // namespace simm::base
