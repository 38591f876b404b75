#include "daemon/process/pool_log.h"

#include <cstdint>
#include <string>

namespace simm {

void log_pool(base::Log& log, base::EventLog& events, const store::PoolMemory& pool) {
  if (!pool.payload().note().empty()) {
    // A large pool of small pages takes long to be let go of when this process ends.
    constexpr std::uint64_t kLargeBytes = std::uint64_t{1} << 30;
    const bool is_large = pool.payload().bytes().size() >= kLargeBytes;
    const std::string what = pool.payload().note() + ", normal ones are used";
    if (is_large) {
      log.warning("pool", what);
    } else {
      log.info("pool", what);
    }
  }
  if (!pool.payload().place_note().empty()) {
    log.warning("pool", "not every shard prefers the NUMA node of its CPU",
                {{"placed", pool.payload().parts_placed()}, {"why", pool.payload().place_note()}});
  }
  if (!pool.why_fresh().empty()) {
    events.tell(base::EventKind::pool_not_kept, {{"why", pool.why_fresh()}});
  }
  const store::PoolLife& last = pool.last_life();
  events.tell(base::EventKind::pool, {{"kind", store::pool_kind_name(pool.kind())},
                                      {"contents", pool.is_kept() ? "kept" : "fresh"},
                                      {"lives_before", pool.is_kept() ? last.lives : 0},
                                      {"last_ended", !pool.is_kept()   ? "never"
                                                     : last.is_running ? "killed"
                                                                       : "stopped"}});
}

}  // namespace simm
