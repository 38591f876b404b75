#include "daemon/engine/page_router.h"

#include <utility>

#include "simm/check.h"

namespace simm::engine {

using transport::PageRequest;
using transport::Route;

std::uint16_t PageRouter::owner_of(Route route) noexcept {
  const std::uint32_t name = route.peer.value << 8 ^ route.shard;
  std::uint32_t at = (name * 0x9e3779b1u) >> 16 & (kBuckets - 1);
  // Ends: at most kPages of the buckets are taken in one round.
  while (buckets_[at].round == round_ && !(buckets_[at].route == route)) {
    at = (at + 1) & (kBuckets - 1);
  }
  if (buckets_[at].round != round_) buckets_[at] = {route, owner_count_++, round_};
  return buckets_[at].owner;
}

void PageRouter::sort(std::span<PageRequest> pages, const Placement& placement) noexcept {
  SIMM_CHECK(pages.size() <= kPages);
  if (++round_ == 0) {  // after 2^32 rounds old marks could look like new ones
    buckets_.fill({});
    round_ = 1;
  }
  owner_count_ = 0;
  const auto count = static_cast<std::uint32_t>(pages.size());
  Route last;
  std::uint16_t last_owner = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Route route = placement.route(base::slot_of(pages[i].group));
    if (i == 0 || !(route == last)) {  // neighbours often share an owner
      last = route;
      last_owner = owner_of(route);
    }
    target_[i] = last_owner;
  }
  if (owner_count_ <= 1) return;

  for (std::uint32_t owner = 0; owner <= owner_count_; ++owner) next_[owner] = 0;
  for (std::uint32_t i = 0; i < count; ++i) ++next_[target_[i] + 1u];
  for (std::uint32_t owner = 1; owner <= owner_count_; ++owner) {
    next_[owner] = static_cast<std::uint16_t>(next_[owner] + next_[owner - 1]);
  }
  for (std::uint32_t i = 0; i < count; ++i) target_[i] = next_[target_[i]]++;
  // Follow the cycles of the permutation: each swap puts one page where it belongs.
  for (std::uint32_t i = 0; i < count; ++i) {
    while (target_[i] != i) {
      const std::uint16_t to = target_[i];
      std::swap(pages[i], pages[to]);
      std::swap(target_[i], target_[to]);
    }
  }
}

PageRouter::Run PageRouter::first_run(std::span<const PageRequest> pages,
                                      const Placement& placement, std::uint32_t pages_max,
                                      std::uint32_t key_bytes_max) noexcept {
  const Route first = placement.route(base::slot_of(pages[0].group));
  Run run{1, pages[0].key_bytes};
  while (run.pages < pages.size() && run.pages < pages_max) {
    const PageRequest& next = pages[run.pages];
    if (run.key_bytes + next.key_bytes > key_bytes_max) break;
    if (!(placement.route(base::slot_of(next.group)) == first)) break;
    run.key_bytes += next.key_bytes;
    ++run.pages;
  }
  return run;
}

}  // namespace simm::engine
