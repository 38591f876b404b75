#include "daemon/shared_reads/tenant_shares.h"

#include <algorithm>

#include "simm/check.h"

namespace simm::shared_reads {

namespace {

// Whether one who uses `own` may use `more` where all together use `used` of `limit`.
bool leaves_enough(std::uint64_t own, std::uint64_t more, std::uint64_t used,
                   std::uint64_t limit) noexcept {
  const std::uint64_t unused = limit - used;
  return more <= unused && own + more <= TenantShares::kFactor * (unused - more);
}

// Of things that are counted, one is for everybody, and the last one for whoever has none.
bool leaves_enough_of(std::uint32_t own, std::uint32_t used, std::uint32_t limit) noexcept {
  return used < limit && (own == 0 || leaves_enough(own, 1, used, limit));
}

}  // namespace

TenantShares::TenantShares(std::uint32_t tenants_max, const Limits& limits)
    : size_(std::max(tenants_max, 1u)),
      limits_(limits),
      shares_(std::make_unique<TenantShare[]>(size_)) {}

std::uint32_t TenantShares::enter(base::TenantId tenant) noexcept {
  std::uint32_t chosen = size_ - 1;
  for (std::uint32_t i = size_; i-- > 0;) {
    if (shares_[i].members > 0 && shares_[i].tenant == tenant) {
      chosen = i;
      break;
    }
    if (shares_[i].members == 0) chosen = i;
  }
  if (shares_[chosen].members == 0) shares_[chosen].tenant = tenant;
  ++shares_[chosen].members;
  return chosen;
}

void TenantShares::leave(std::uint32_t share) noexcept {
  SIMM_CHECK(shares_[share].members > 0);
  --shares_[share].members;
}

bool TenantShares::may_use(std::uint32_t share, std::uint64_t extent_bytes) const noexcept {
  return leaves_enough(shares_[share].used_bytes, extent_bytes, used_bytes_, limits_.bytes) &&
         leaves_enough_of(shares_[share].used_shared_reads, used_shared_reads_,
                          limits_.shared_reads);
}

void TenantShares::use(std::uint32_t share, std::uint64_t extent_bytes) noexcept {
  shares_[share].used_bytes += extent_bytes;
  ++shares_[share].used_shared_reads;
  used_bytes_ += extent_bytes;
  ++used_shared_reads_;
}

void TenantShares::let_go(std::uint32_t share, std::uint64_t extent_bytes) noexcept {
  SIMM_CHECK(shares_[share].used_shared_reads > 0 && shares_[share].used_bytes >= extent_bytes);
  shares_[share].used_bytes -= extent_bytes;
  --shares_[share].used_shared_reads;
  used_bytes_ -= extent_bytes;
  --used_shared_reads_;
}

bool TenantShares::may_wait(std::uint32_t share) const noexcept {
  return leaves_enough_of(shares_[share].waiters, waiters_, limits_.waiters);
}

void TenantShares::add_waiter(std::uint32_t share) noexcept {
  ++shares_[share].waiters;
  ++waiters_;
}

void TenantShares::remove_waiter(std::uint32_t share) noexcept {
  SIMM_CHECK(shares_[share].waiters > 0);
  --shares_[share].waiters;
  --waiters_;
}

bool TenantShares::may_fetch(std::uint32_t share) const noexcept {
  return leaves_enough_of(shares_[share].fetches, fetches_, limits_.fetches);
}

void TenantShares::add_fetch(std::uint32_t share) noexcept {
  ++shares_[share].fetches;
  ++fetches_;
}

void TenantShares::remove_fetch(std::uint32_t share) noexcept {
  SIMM_CHECK(shares_[share].fetches > 0);
  --shares_[share].fetches;
  --fetches_;
}

void TenantShares::add_shared_read(std::uint32_t share, std::uint64_t extent_bytes) noexcept {
  ++shares_[share].members;
  if (shares_[share].shared_reads++ == 0) ++owners_;
  shares_[share].bytes += extent_bytes;
  use(share, extent_bytes);
}

void TenantShares::remove_shared_read(std::uint32_t share, std::uint64_t extent_bytes) noexcept {
  let_go(share, extent_bytes);
  SIMM_CHECK(shares_[share].shared_reads > 0 && shares_[share].bytes >= extent_bytes);
  if (--shares_[share].shared_reads == 0) --owners_;
  shares_[share].bytes -= extent_bytes;
  leave(share);
}

bool TenantShares::exceeds_fair_part(std::uint32_t share,
                                     std::uint64_t extent_bytes) const noexcept {
  const TenantShare& own = shares_[share];
  const std::uint32_t among = owners_ + (own.shared_reads == 0 ? 1u : 0u);
  return own.bytes + extent_bytes > limits_.bytes / among ||
         own.shared_reads >= limits_.shared_reads / among;
}

}  // namespace simm::shared_reads
