// Replays a trace against the store's own eviction policies and the optimal one, without a store:
// blocks of one size, a cache of so many of them, no leases. Seconds for a trace of an hour.
//
// A request is looked up in the order of its prompt and stored whole. Uses are from its last block
// to its first, as the server reports those of a batch, or the other way round, as when each block
// is put for itself; with depths told or not. Optimal: Belady, "A study of replacement algorithms
// for a virtual-storage computer" (1966), which may refuse to keep a block. Thread: any; no shared
// state.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/store/eviction/store_config.h"
#include "daemon/tools/simm-bench/trace.h"
#include "simm/expected.h"

namespace simm::bench {

struct CacheHits {
  std::uint64_t blocks = 0;  // looked up blocks that were there
  std::uint64_t prefix =
      0;  // of those: with all blocks before them, which is what an engine can use
};

// How the blocks of a request are put.
struct PutStyle {
  bool head_first = false;
  bool tells_depth = false;
};

class CacheSimulation {
public:
  explicit CacheSimulation(const Trace& trace);

  [[nodiscard]] std::uint64_t lookups() const noexcept { return lookups_; }
  [[nodiscard]] std::uint64_t unique_blocks() const noexcept { return unique_blocks_; }

  // cache_blocks > 0.
  [[nodiscard]] Expected<CacheHits> run(store::EvictionKind kind, std::uint32_t cache_blocks,
                                        PutStyle style = {}) const;
  [[nodiscard]] std::uint64_t optimal_hits(std::uint32_t cache_blocks) const;

private:
  struct Request {
    std::uint64_t now_ns = 0;
    std::vector<std::uint32_t> blocks;  // numbers from 0 on
  };
  std::vector<Request> requests_;
  std::uint64_t lookups_ = 0;
  std::uint32_t unique_blocks_ = 0;
};

}  // namespace simm::bench
