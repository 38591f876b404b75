// PoolCost: what a daemon needs besides the bytes of its pool: page tables, the tables of the
// objects, its agents, the cache of other daemons' objects. Reckoned at start, so that a pool that
// would end the daemon one day, full, is refused on its first day.
// Thread: start-up.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/base/config.h"

namespace simm {

struct PoolCost {
  // Where store.objects_max says nothing: objects of this size. Pages of KV caches are longer.
  static constexpr std::uint64_t kObjectBytesExpected = 64 << 10;

  std::uint64_t page_table_bytes = 0;    // of normal pages: 8 bytes for each 4 KiB
  std::uint64_t object_table_bytes = 0;  // of as many objects as are expected, with their keys
  std::uint64_t agent_bytes = 0;         // links, buffers and channels
  std::uint64_t cache_bytes = 0;         // node.cache_bytes

  // `cache_bytes`: 0 where nothing of other daemons is kept.
  static PoolCost of(const base::Config& config, std::uint64_t pool_bytes,
                     std::uint64_t cache_bytes) noexcept;
  // The longest pool that fits with its cost into `usable_bytes`; 0: none.
  static std::uint64_t largest_pool(const base::Config& config, std::uint64_t usable_bytes,
                                    std::uint64_t cache_bytes) noexcept;

  [[nodiscard]] std::uint64_t total() const noexcept {
    return page_table_bytes + object_table_bytes + agent_bytes + cache_bytes;
  }
  // "1.2 GiB besides (page tables 128.0 MiB, tables of objects 420.0 MiB, ...)".
  [[nodiscard]] std::string text() const;
};

}  // namespace simm
