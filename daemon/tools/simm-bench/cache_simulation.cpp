#include "daemon/tools/simm-bench/cache_simulation.h"

#include <xxhash.h>

#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "daemon/store/eviction/depth_queue.h"
#include "daemon/store/eviction/eviction_policy.h"

namespace simm::bench {
namespace {

constexpr std::uint32_t kAccount = 1;

// The cached blocks as groups of one policy.
class SimulatedCache {
public:
  SimulatedCache(std::uint32_t unique_blocks, std::uint32_t cache_blocks)
      : memory_(std::size_t{cache_blocks} + 1),
        groups_(memory_.data(), cache_blocks),
        group_of_(unique_blocks, store::kNone),
        block_of_(std::size_t{cache_blocks} + 1) {}

  [[nodiscard]] Outcome open(store::EvictionKind kind) {
    auto policy = store::make_eviction_policy(kind, groups_, kAccount + 1);
    if (!policy) return std::move(policy).error();
    policy_ = std::move(policy).value();
    return Done{};
  }

  [[nodiscard]] bool has(std::uint32_t block) const { return group_of_[block] != store::kNone; }

  // `depth`: of a block that is put; 0: not told.
  void use(std::uint32_t block, std::uint32_t depth, base::TimeNs now_ns) {
    if (has(block)) return policy_->note_use(group_of_[block], now_ns);
    if (groups_.full()) evict(now_ns);
    const std::uint32_t group = groups_.allocate();
    groups_[group].account = kAccount;
    groups_[group].depth_step = store::DepthQueue::step_of(depth);
    groups_[group].hash = XXH3_64bits(&block, sizeof block);
    policy_->note_use(group, now_ns);
    policy_->enqueue(group);
    group_of_[block] = group;
    block_of_[group] = block;
  }

private:
  void evict(base::TimeNs now_ns) {
    const std::uint32_t victim = policy_->candidate(kAccount, now_ns).group;
    policy_->note_eviction(victim);
    policy_->dequeue(victim);
    groups_.release(victim);
    group_of_[block_of_[victim]] = store::kNone;
  }

  std::vector<store::Group> memory_;
  store::Table<store::Group> groups_;
  std::vector<std::uint32_t> group_of_;
  std::vector<std::uint32_t> block_of_;
  std::unique_ptr<store::EvictionPolicy> policy_;
};

}  // namespace

CacheSimulation::CacheSimulation(const Trace& trace) {
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  for (const TraceRequest& request : trace) {
    Request made;
    // The policies' clock does not begin at zero.
    made.now_ns = (request.timestamp_ms + 1000) * base::kNsPerMs;
    for (const std::uint64_t id : request.block_ids) {
      made.blocks.push_back(
          numbers.emplace(id, static_cast<std::uint32_t>(numbers.size())).first->second);
    }
    lookups_ += made.blocks.size();
    requests_.push_back(std::move(made));
  }
  unique_blocks_ = static_cast<std::uint32_t>(numbers.size());
}

Expected<CacheHits> CacheSimulation::run(store::EvictionKind kind, std::uint32_t cache_blocks,
                                         PutStyle style) const {
  SimulatedCache cache(unique_blocks_, cache_blocks);
  const Outcome opened = cache.open(kind);
  if (!opened) return opened.error();
  CacheHits hits;
  for (const Request& request : requests_) {
    bool prefix = true;
    for (const std::uint32_t block : request.blocks) {
      const bool there = cache.has(block);
      prefix = prefix && there;
      hits.blocks += there ? 1 : 0;
      hits.prefix += prefix ? 1 : 0;
    }
    const auto count = static_cast<std::uint32_t>(request.blocks.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t at = style.head_first ? i : count - 1 - i;
      cache.use(request.blocks[at], style.tells_depth ? at + 1 : 0, request.now_ns);
    }
  }
  return hits;
}

std::uint64_t CacheSimulation::optimal_hits(std::uint32_t cache_blocks) const {
  // When each look-up's block is looked up next; lookups_ stands for never.
  std::vector<std::uint64_t> next_use(lookups_);
  std::vector<std::uint64_t> next_of(unique_blocks_, lookups_);
  std::uint64_t at = lookups_;
  for (auto request = requests_.rbegin(); request != requests_.rend(); ++request) {
    for (auto block = request->blocks.rbegin(); block != request->blocks.rend(); ++block) {
      next_use[--at] = next_of[*block];
      next_of[*block] = at;
    }
  }
  std::set<std::pair<std::uint64_t, std::uint32_t>> kept;  // by next use
  std::uint64_t hits = 0;
  at = 0;
  for (const Request& request : requests_) {
    for (const std::uint32_t block : request.blocks) {
      hits += kept.erase({at, block});
      if (next_use[at] != lookups_) kept.emplace(next_use[at], block);
      if (kept.size() > cache_blocks) kept.erase(std::prev(kept.end()));
      ++at;
    }
  }
  return hits;
}

}  // namespace simm::bench
