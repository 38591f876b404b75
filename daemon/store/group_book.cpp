#include "daemon/store/group_book.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::store {

std::uint32_t GroupBook::accounts_for(const StoreConfig& config) noexcept {
  const auto named = static_cast<std::uint32_t>(config.quotas.size());
  return std::max(config.tenants_max, named) + 1;
}

GroupBook::GroupBook(const StoreConfig& config, std::uint64_t arena_bytes, Table<Group> groups,
                     HashIndex index, std::unique_ptr<EvictionPolicy> policy)
    : groups_(groups),
      index_(index),
      policy_(std::move(policy)),
      accounts_(accounts_for(config)),
      arena_bytes_(arena_bytes),
      lease_budget_percent_(config.lease_budget_percent) {
  std::size_t at = 1;
  for (const TenantQuota& quota : config.quotas) {
    Account& made = accounts_[at++];
    made.tenant = quota.tenant;
    made.configured = true;
    made.quota_bytes = quota.bytes == 0 ? arena_bytes : std::min(quota.bytes, arena_bytes);
  }
}

std::uint32_t GroupBook::account_of(base::TenantId tenant) noexcept {
  const auto holds = [&](const Account& a) {
    return a.tenant == tenant && (a.configured || a.records > 0);
  };
  if (last_account_ != kNone && holds(accounts_[last_account_])) return last_account_;
  std::uint32_t vacant = kNone;
  for (std::uint32_t n = accounts_end() - 1; n > 0; --n) {
    if (holds(accounts_[n])) return last_account_ = n;
    if (!accounts_[n].configured && accounts_[n].records == 0) vacant = n;
  }
  if (vacant == kNone) return kNone;
  accounts_[vacant].tenant = tenant;
  accounts_[vacant].quota_bytes = arena_bytes_;
  return last_account_ = vacant;
}

std::uint32_t GroupBook::find_or_make(std::uint64_t hash, std::uint32_t account,
                                      base::TimeNs now_ns) noexcept {
  std::uint32_t number = index_.find(hash, [&](std::uint32_t candidate) {
    return groups_[candidate].hash == hash && groups_[candidate].account == account;
  });
  if (number != kNone) return number;
  number = groups_.allocate();
  SIMM_CHECK(number != kNone);
  Group& made = groups_[number];
  made.hash = hash;
  made.account = account;
  policy_->note_use(number, now_ns);
  policy_->enqueue(number);
  index_.insert(hash, number);
  return number;
}

void GroupBook::add_member(Table<Record>& records, std::uint32_t number, std::uint32_t record,
                           std::uint64_t extent_bytes) noexcept {
  Group& g = groups_[number];
  g.members.push_back(records, record);
  g.extent_bytes += extent_bytes;
  records[record].group = number;
  if (!g.leased) return;
  accounts_[g.account].leased_bytes += extent_bytes;
  leased_bytes_ += extent_bytes;
}

void GroupBook::remove_member(Table<Record>& records, std::uint32_t record,
                              std::uint64_t extent_bytes) noexcept {
  const std::uint32_t number = records[record].group;
  Group& g = groups_[number];
  g.members.remove(records, record);
  g.extent_bytes -= extent_bytes;
  records[record].group = kNone;
  if (g.leased) {
    accounts_[g.account].leased_bytes -= extent_bytes;
    leased_bytes_ -= extent_bytes;
  }
  if (!g.members.empty()) return;
  wheel_.cancel(groups_, number);
  if (g.leased) {
    accounts_[g.account].leased.remove(groups_, number);
  } else {
    policy_->dequeue(number);
  }
  index_.remove(g.hash, number);
  groups_.release(number);
}

void GroupBook::touch(std::uint32_t number, base::TimeNs now_ns) noexcept {
  if (!groups_[number].leased) policy_->note_use(number, now_ns);
}

void GroupBook::set_leased(std::uint32_t number, bool leased) noexcept {
  Group& g = groups_[number];
  Account& holder = accounts_[g.account];
  if (leased) {
    policy_->dequeue(number);
    holder.leased.push_back(groups_, number);
    holder.leased_bytes += g.extent_bytes;
    leased_bytes_ += g.extent_bytes;
  } else {
    holder.leased.remove(groups_, number);
    policy_->enqueue(number);
    holder.leased_bytes -= g.extent_bytes;
    leased_bytes_ -= g.extent_bytes;
  }
  g.leased = leased;
}

void GroupBook::lease(std::uint32_t number, base::TimeNs now_ns, base::TimeNs lease_ns) noexcept {
  Group& g = groups_[number];
  policy_->note_use(number, now_ns);
  g.lease_until_ns = std::max(g.lease_until_ns, now_ns + lease_ns);
  if (g.leased) {
    accounts_[g.account].leased.move_to_back(groups_, number);
    return;  // the wheel meets it at its old end and finds out
  }
  set_leased(number, true);
  wheel_.schedule(groups_, number, g.lease_until_ns);
}

void GroupBook::extend_lease(std::uint32_t number, base::TimeNs now_ns,
                             base::TimeNs lease_ns) noexcept {
  Group& g = groups_[number];
  if (!g.leased) return lease(number, now_ns, lease_ns);
  g.lease_until_ns = std::max(g.lease_until_ns, now_ns + lease_ns);
}

int GroupBook::end_leases(base::TimeNs now_ns, int budget) noexcept {
  return wheel_.advance(groups_, now_ns, budget, [&](std::uint32_t number) {
    Group& g = groups_[number];
    if (g.lease_until_ns > now_ns) {
      wheel_.schedule(groups_, number, g.lease_until_ns);
      return;
    }
    set_leased(number, false);
  });
}

bool GroupBook::over_lease_budget(const Account& a) const noexcept {
  return a.leased_bytes > percent_of(a.quota_bytes, lease_budget_percent_);
}

std::uint32_t GroupBook::unleased_victim(base::TimeNs now_ns) const noexcept {
  return policy_->victim(kNone, now_ns);
}

GroupBook::Victim GroupBook::victim(std::uint32_t account, base::TimeNs now_ns) const noexcept {
  const std::uint32_t unleased = policy_->victim(account, now_ns);
  if (unleased != kNone) return {unleased, false};
  if (account != kNone) {
    const Account& a = accounts_[account];
    if (over_lease_budget(a)) return {a.leased.front(), true};
    return {};
  }
  if (leased_bytes_ <= percent_of(arena_bytes_, lease_budget_percent_)) return {};
  Victim oldest{kNone, true};
  for (const Account& a : accounts_) {
    const std::uint32_t front = a.leased.front();
    if (front == kNone) continue;
    if (oldest.group == kNone || groups_[front].used_ns < groups_[oldest.group].used_ns) {
      oldest.group = front;
    }
  }
  return oldest;
}

}  // namespace simm::store
