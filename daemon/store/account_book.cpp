#include "daemon/store/account_book.h"

#include <algorithm>

namespace simm::store {

std::uint32_t AccountBook::count_for(const StoreConfig& config) noexcept {
  const auto named = static_cast<std::uint32_t>(config.quotas.size());
  return std::max(config.tenants_max, named) + 1;
}

AccountBook::AccountBook(const StoreConfig& config, std::uint64_t arena_bytes,
                         std::uint32_t records_max)
    : accounts_(count_for(config)), arena_bytes_(arena_bytes), records_max_(records_max) {
  std::size_t at = 1;
  for (const TenantQuota& quota : config.quotas) {
    Account& made = accounts_[at++];
    made.tenant = quota.tenant;
    made.configured = true;
    made.weight = quota.weight;
    made.quota_bytes = quota.bytes == 0 ? arena_bytes : std::min(quota.bytes, arena_bytes);
  }
}

std::uint32_t AccountBook::account_of(base::TenantId tenant) noexcept {
  const auto holds = [&](const Account& a) {
    return a.tenant == tenant && (a.configured || a.records > 0);
  };
  if (last_ != kNone && holds(accounts_[last_])) return last_;
  std::uint32_t vacant = kNone;
  for (std::uint32_t n = end() - 1; n > 0; --n) {
    if (holds(accounts_[n])) return last_ = n;
    if (!accounts_[n].configured && accounts_[n].records == 0) vacant = n;
  }
  if (vacant == kNone) return kNone;
  accounts_[vacant].tenant = tenant;
  accounts_[vacant].quota_bytes = arena_bytes_;
  return last_ = vacant;
}

void AccountBook::charge(std::uint32_t number, std::uint64_t extent_bytes) noexcept {
  Account& a = accounts_[number];
  if (a.records == 0) weights_ += a.weight;
  ++a.records;
  a.extent_bytes += extent_bytes;
  ++held_records_;
  held_bytes_ += extent_bytes;
}

void AccountBook::discharge(std::uint32_t number, std::uint64_t extent_bytes) noexcept {
  Account& a = accounts_[number];
  --a.records;
  a.extent_bytes -= extent_bytes;
  --held_records_;
  held_bytes_ -= extent_bytes;
  if (a.records == 0) weights_ -= a.weight;
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
