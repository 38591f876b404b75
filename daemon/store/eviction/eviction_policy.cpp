#include "daemon/store/eviction/eviction_policy.h"

#include <limits>
#include <utility>

#include "daemon/store/eviction/queue_policy.h"
#include "daemon/store/eviction/reuse_policy.h"

namespace simm::store {

bool EvictionPolicy::count_use(std::uint32_t number, base::TimeNs now_ns) noexcept {
  Group& g = groups_[number];
  const auto tick = static_cast<std::uint8_t>(now_ns / kTickNs);
  const bool counts = g.uses == 0 || now_ns - g.used_ns >= kSameUseNs ||
                      static_cast<std::uint8_t>(tick - g.counted_tick) >= kSameUseNs / kTickNs;
  if (counts) {
    if (g.uses < std::numeric_limits<std::uint8_t>::max()) ++g.uses;
    g.counted_tick = tick;
  }
  g.used_ns = now_ns;
  return counts;
}

Expected<std::unique_ptr<EvictionPolicy>> make_eviction_policy(EvictionKind kind,
                                                               Table<Group> groups,
                                                               std::uint32_t accounts) {
  std::unique_ptr<EvictionPolicy> made;
  switch (kind) {
    case EvictionKind::lru:
    case EvictionKind::fifo:
      made = std::make_unique<QueuePolicy>(groups, accounts, kind == EvictionKind::lru);
      break;
    case EvictionKind::reuse: {
      auto ghosts = GhostTable::create(groups.capacity());
      if (!ghosts) return std::move(ghosts).error();
      auto memory = ReservedMemory::map(ReusePolicy::bytes_for(accounts));
      if (!memory) return std::move(memory).error();
      made = std::make_unique<ReusePolicy>(groups, accounts, std::move(memory).value(),
                                           std::move(ghosts).value());
    }
  }
  return made;
}

}  // namespace simm::store
