// ShardMemory: where one store keeps what may outlive its process. There are two ranges because
// payloads like huge pages, which can not be sparse. The metadata table is address space for as
// many objects as there could be. The memory belongs to the caller and outlives the store.
// Thread: any; a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/store/space/table_backing.h"

namespace simm::store {

enum class Contents : std::uint8_t {
  fresh,  // the table is zeroed
  kept,   // both are what an earlier life left, of any age, and possibly torn or damaged
};

struct ShardMemory {
  std::span<std::byte> payload;
  // At least Store::table_bytes_for() bytes, on a page boundary, not shared with another store.
  // Empty: the store maps memory of its own, which goes with it.
  std::span<std::byte> table;
  Contents contents = Contents::fresh;
  // Names the boot of the machine: a time of the monotonic clock means nothing under the clock of
  // another boot.
  std::uint64_t boot = 0;
  base::TimeNs now_ns = 0;  // for kept contents: the time of the recovery
  // Of `table` beyond its first page and what earlier lives used; null: all of it may be touched.
  TableBacking* backing = nullptr;
};

}  // namespace simm::store
