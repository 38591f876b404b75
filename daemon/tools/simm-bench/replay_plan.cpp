#include "daemon/tools/simm-bench/replay_plan.h"

#include <algorithm>
#include <unordered_map>

namespace simm::bench {
namespace {

constexpr std::uint64_t kScaleMin = 256;
constexpr std::uint64_t kUniqueToPoolMax = 8;

}  // namespace

std::uint64_t pages_of(const TraceRequest& request) {
  return std::min<std::uint64_t>(request.input_tokens / kPageTokens,
                                 request.block_ids.size() * kPagesPerBlock);
}

ReplayPlan plan_replay(const Trace& trace, const WorkloadModel& model, unsigned ranks,
                       std::uint64_t pool_bytes, std::uint64_t scale) {
  ReplayPlan plan;
  plan.model = model;
  plan.ranks = ranks;
  std::unordered_map<std::uint64_t, std::uint64_t> cached_pages;  // of each block
  std::uint64_t unique_pages = 0;
  for (const TraceRequest& request : trace) {
    const std::uint64_t pages = pages_of(request);
    plan.pages += pages;
    plan.fetch_calls_max += (pages + kPagesPerCall - 1) / kPagesPerCall;
    bool prefix = true;
    for (std::uint64_t first = 0; first < pages; first += kPagesPerBlock) {
      const std::uint64_t here = std::min(kPagesPerBlock, pages - first);
      std::uint64_t& cached = cached_pages[request.block_ids[first / kPagesPerBlock]];
      // A prefix ends at the first page that is not there.
      if (prefix) plan.best_pages_hit += std::min(cached, here);
      prefix = prefix && cached >= here;
      unique_pages += here > cached ? here - cached : 0;
      cached = std::max(cached, here);
    }
  }
  const std::uint64_t sharers = model.is_mla() ? 1 : ranks;
  const std::uint64_t objects = unique_pages * model.objects_per_page * sharers;
  plan.scale = scale;
  if (scale == 0) {
    plan.scale = kScaleMin;
    while (objects * (model.object_bytes / plan.scale) > kUniqueToPoolMax * pool_bytes &&
           model.object_bytes / plan.scale >= 1'024) {
      plan.scale *= 2;
    }
  }
  plan.object_bytes = std::max<std::uint64_t>(1, model.object_bytes / plan.scale);
  plan.unique_bytes = objects * plan.object_bytes;
  return plan;
}

}  // namespace simm::bench
