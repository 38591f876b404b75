#include "daemon/store/eviction/account_book.h"

#include <algorithm>

namespace simm::store {

std::uint32_t AccountBook::count_for(const StoreConfig& config) noexcept {
  const auto named = static_cast<std::uint32_t>(config.quotas.size());
  return std::max(config.tenants_max, named) + 1;
}

AccountBook::AccountBook(const StoreConfig& config, std::uint64_t arena_bytes,
                         std::uint32_t records_max)
    : accounts_(count_for(config)),
      tallies_(accounts_.size()),
      arena_bytes_(arena_bytes),
      records_max_(records_max) {
  for (const TenantQuota& quota : config.quotas) {
    Account& made = accounts_[++named_];
    made.tenant = quota.tenant;
    made.configured = true;
    made.weight = quota.weight;
    made.quota_bytes = quota.bytes == 0 ? arena_bytes : std::min(quota.bytes, arena_bytes);
    if (made.quota_bytes < arena_bytes)
      made.stock = stock_of(config, made.quota_bytes, config.free_bytes_max);
  }
}

std::uint32_t AccountBook::account_of(base::TenantId tenant) noexcept {
  if (last_ != kNone && accounts_[last_].tenant == tenant) return last_;
  std::uint32_t vacant = kNone;
  for (std::uint32_t n = 1; n <= named_; ++n) {
    if (accounts_[n].tenant == tenant) return last_ = n;
    if (!accounts_[n].configured && accounts_[n].records == 0) vacant = n;
  }
  if (named_ + 1 < end()) vacant = ++named_;
  if (vacant == kNone) return kNone;
  accounts_[vacant].tenant = tenant;
  accounts_[vacant].renamed = true;
  accounts_[vacant].quota_bytes = arena_bytes_;
  tallies_[vacant] = {};
  return last_ = vacant;
}

void AccountBook::charge(std::uint32_t number, std::uint64_t extent_bytes) noexcept {
  Account& a = accounts_[number];
  if (a.records == 0) weights_ += a.weight;
  ++a.records;
  a.extent_bytes += extent_bytes;
  ++held_records_;
  held_bytes_ += extent_bytes;
  if (!a.crowded && a.extent_bytes + a.stock.low > a.quota_bytes) {
    a.crowded = true;
    ++crowded_;
  }
}

void AccountBook::discharge(std::uint32_t number, std::uint64_t extent_bytes) noexcept {
  Account& a = accounts_[number];
  --a.records;
  a.extent_bytes -= extent_bytes;
  --held_records_;
  held_bytes_ -= extent_bytes;
  if (a.records == 0) weights_ -= a.weight;
  if (a.crowded && a.extent_bytes + a.stock.high <= a.quota_bytes) {
    a.crowded = false;
    --crowded_;
  }
}

std::uint32_t AccountBook::next_crowded(std::uint32_t after) const noexcept {
  if (crowded_ == 0) return kNone;
  std::uint32_t next = after;
  do {
    next = next + 1 < end() ? next + 1 : 1;
  } while (!accounts_[next].crowded);
  return next;
}

std::uint32_t AccountBook::tell(std::span<TenantUse> uses) const noexcept {
  for (std::uint32_t n = 1; n <= named_; ++n) {
    const Account& a = accounts_[n];
    TenantUse& use = uses[n - 1];
    use.tenant = a.tenant;
    use.weight = a.weight;
    use.quota_bytes = a.quota_bytes;
    use.fair_bytes = share_of(a, Scarce::bytes);
    use.extent_bytes = a.extent_bytes;
    use.leased_bytes = a.leased_bytes;
    use.pinned_bytes = a.pinned_bytes;
    use.tally = tallies_[n];
  }
  return named_;
}

std::uint64_t AccountBook::share_of(const Account& account, Scarce scarce) const noexcept {
  const std::uint64_t weights = weights_ + (account.records == 0 ? account.weight : 0);
  if (scarce == Scarce::records) {
    return std::uint64_t{records_max_} * account.weight / weights;
  }
  return std::min(account.quota_bytes, arena_bytes_ / weights * account.weight +
                                           arena_bytes_ % weights * account.weight / weights);
}

}  // namespace simm::store
