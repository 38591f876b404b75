#include "daemon/store/eviction/group_book.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "simm/check.h"

namespace simm::store {

GroupBook::GroupBook(const StoreConfig& config, std::uint64_t arena_bytes, Table<Group> groups,
                     HashIndex index, std::unique_ptr<EvictionPolicy> policy)
    : groups_(groups),
      index_(index),
      policy_(std::move(policy)),
      accounts_(config, arena_bytes, groups.capacity()),
      arena_bytes_(arena_bytes),
      lease_budget_percent_(config.lease_budget_percent),
      pin_budget_percent_(config.pin_budget_percent) {}

void GroupBook::count_kept(const Group& g, std::uint64_t bytes, Kept kept) noexcept {
  const auto count = [&](std::uint64_t& sum) {
    if (kept == Kept::more) {
      sum += bytes;
    } else {
      sum -= bytes;
    }
  };
  Account& holder = accounts_[g.account];
  if (g.leased) {
    count(holder.leased_bytes);
    count(leased_bytes_);
  }
  if (g.pinned) {
    count(holder.pinned_bytes);
    count(pinned_bytes_);
  }
}

std::uint32_t GroupBook::find_or_make(const Record& member, base::TimeNs now_ns) noexcept {
  const std::uint64_t hash = member.group_hash;
  const std::uint32_t account = member.account;
  std::uint32_t number = index_.find(hash, [&](std::uint32_t candidate) {
    return groups_[candidate].hash == hash && groups_[candidate].account == account;
  });
  if (number != kNone) return number;
  number = groups_.allocate();
  SIMM_CHECK(number != kNone);
  Group& made = groups_[number];
  made.hash = hash;
  made.account = account;
  made.depth_step = member.depth_step;
  if (std::exchange(accounts_[account].renamed, false)) policy_->begin_account(account);
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
  count_kept(g, extent_bytes, Kept::more);
}

void GroupBook::remove_member(Table<Record>& records, std::uint32_t record,
                              std::uint64_t extent_bytes) noexcept {
  const std::uint32_t number = records[record].group;
  Group& g = groups_[number];
  g.members.remove(records, record);
  g.extent_bytes -= extent_bytes;
  records[record].group = kNone;
  count_kept(g, extent_bytes, Kept::less);
  if (!g.members.empty()) return;
  wheel_.cancel(groups_, number);
  if (g.leased) {
    accounts_[g.account].leases_like(g).remove(groups_, number);
  } else if (g.queued) {
    policy_->dequeue(number);
  } else {
    --pinned_groups_;
  }
  index_.remove(g.hash, number);
  groups_.release(number);
}

void GroupBook::note_use(std::uint32_t number, base::TimeNs now_ns) noexcept {
  const base::TimeNs used_ns = groups_[number].used_ns;
  if (now_ns >= used_ns + EvictionPolicy::kSameUseNs) {
    ++reused_by_age_[StoreSpectrum::reuse_class(now_ns - used_ns)];
  }
  policy_->note_use(number, now_ns);
}

void GroupBook::touch(std::uint32_t number, base::TimeNs now_ns) noexcept {
  if (!groups_[number].leased) note_use(number, now_ns);
}

void GroupBook::set_leased(std::uint32_t number, bool leased, bool probed) noexcept {
  Group& g = groups_[number];
  Account& holder = accounts_[g.account];
  if (leased) {
    policy_->dequeue(number);
    g.leased = true;
    g.probed = probed;
    holder.leases_like(g).push_back(groups_, number);
    count_kept(g, g.extent_bytes, Kept::more);
  } else {
    count_kept(g, g.extent_bytes, Kept::less);
    g.leased = false;
    holder.leases_like(g).remove(groups_, number);
    policy_->enqueue(number);
  }
}

void GroupBook::lease(std::uint32_t number, base::TimeNs now_ns, base::TimeNs lease_ns) noexcept {
  keep(number, now_ns, lease_ns, false);  // first: what is not queued changes no place by its use
  note_use(number, now_ns);
}

void GroupBook::keep(std::uint32_t number, base::TimeNs now_ns, base::TimeNs lease_ns,
                     bool probed) noexcept {
  Group& g = groups_[number];
  g.lease_until_ns = std::max(g.lease_until_ns, now_ns + lease_ns);
  if (g.pinned) return;
  if (g.leased) {
    Account& holder = accounts_[g.account];
    holder.leases_like(g).remove(groups_, number);
    g.probed = g.probed && probed;
    holder.leases_like(g).push_back(groups_, number);
    return;  // the wheel meets it at its old end and finds out
  }
  set_leased(number, true, probed);
  wheel_.schedule(groups_, number, g.lease_until_ns);
}

void GroupBook::extend_lease(std::uint32_t number, base::TimeNs now_ns,
                             base::TimeNs lease_ns) noexcept {
  Group& g = groups_[number];
  if (!g.leased && !g.pinned) return lease(number, now_ns, lease_ns);
  g.lease_until_ns = std::max(g.lease_until_ns, now_ns + lease_ns);
}

bool GroupBook::may_pin(const Account& a, std::uint64_t more_bytes) const noexcept {
  const std::uint64_t share = accounts_.share_of(a, Scarce::bytes);
  return pinned_bytes_ + more_bytes <= percent_of(arena_bytes_, pin_budget_percent_) &&
         a.pinned_bytes + more_bytes <= percent_of(share, pin_budget_percent_);
}

bool GroupBook::pin(std::uint32_t number) noexcept {
  Group& g = groups_[number];
  if (g.pinned) return true;
  if (!may_pin(accounts_[g.account], g.extent_bytes)) return false;
  if (g.leased) {
    wheel_.cancel(groups_, number);
    set_leased(number, false);
  }
  policy_->dequeue(number);
  g.pinned = true;
  count_kept(g, g.extent_bytes, Kept::more);
  ++pinned_groups_;
  return true;
}

void GroupBook::unpin(std::uint32_t number, base::TimeNs now_ns) noexcept {
  Group& g = groups_[number];
  if (!g.pinned) return;
  count_kept(g, g.extent_bytes, Kept::less);
  g.pinned = false;
  --pinned_groups_;
  policy_->note_use(number, now_ns);
  policy_->enqueue(number);
  if (g.lease_until_ns <= now_ns) return;
  set_leased(number, true);
  wheel_.schedule(groups_, number, g.lease_until_ns);
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

bool GroupBook::over_lease_budget(const Account& a, Scarce scarce) const noexcept {
  if (a.first_lease() == kNone) return false;
  const std::uint64_t budget = percent_of(accounts_.share_of(a, scarce), lease_budget_percent_);
  if (scarce == Scarce::bytes) return a.leased_bytes > budget;
  // Records of groups are not counted: leases keep as many of them as of the bytes.
  const double kept = static_cast<double>(a.leased_bytes) / static_cast<double>(a.extent_bytes);
  return kept * a.records > static_cast<double>(budget);
}

bool GroupBook::outlives_lease(std::uint32_t candidate, const Account& a,
                               base::TimeNs now_ns) const noexcept {
  if (candidate == kNone) return true;
  const base::TimeNs used_ns = groups_[candidate].used_ns;
  return used_ns + kFreshNs > now_ns || used_ns > groups_[a.first_lease()].used_ns;
}

GroupBook::Victim GroupBook::quota_victim(std::uint32_t account,
                                          base::TimeNs now_ns) const noexcept {
  const std::uint32_t unleased = policy_->candidate(account, now_ns).group;
  const Account& a = accounts_[account];
  const bool over_budget = a.leased_bytes > percent_of(a.quota_bytes, lease_budget_percent_);
  if (over_budget && outlives_lease(unleased, a, now_ns)) return {a.first_lease(), true, false};
  return {unleased, false, false};
}

GroupBook::Victim GroupBook::victim(const Need& need, base::TimeNs now_ns) const noexcept {
  const bool for_stock = need.account == kNone;
  const auto holding_of = [&](std::uint32_t number) {
    const Account& a = accounts_[number];
    Holding holding{a.held(need.scarce), a.weight};
    if (number == need.account) {
      holding.amount += need.scarce == Scarce::bytes ? need.extent_bytes : 1;
    }
    return holding;
  };
  // Who holds less than this for its weight gives way with nothing that was used lately.
  const Holding floor = for_stock ? accounts_.mean(need.scarce) : holding_of(need.account);
  Victim victim;
  double worth = 0;
  Holding most;
  EvictionPolicy::Candidate unprotected;
  for (std::uint32_t n = 1; n < accounts_.end(); ++n) {
    if (accounts_[n].records == 0) continue;
    const Holding holding = holding_of(n);
    const EvictionPolicy::Candidate candidate = policy_->candidate(n, now_ns);
    if (holding.less_than(floor)) {
      if (candidate.group == kNone || groups_[candidate.group].used_ns + kProtectedNs > now_ns)
        continue;
      if (unprotected.group == kNone || candidate.worth < unprotected.worth)
        unprotected = candidate;
      continue;
    }
    if (victim.group != kNone && !most.less_than(holding)) continue;
    const bool breaks_lease = over_lease_budget(accounts_[n], need.scarce) &&
                              outlives_lease(candidate.group, accounts_[n], now_ns);
    if (breaks_lease && !for_stock) {
      victim = {accounts_[n].first_lease(), true, false};
    } else if (candidate.group != kNone && !breaks_lease) {
      victim = {candidate.group, false, false};
    } else {
      continue;
    }
    worth = candidate.worth;
    most = holding;
  }
  const bool unprotected_first =
      victim.group == kNone || victim.breaks_lease || unprotected.worth < worth;
  if (unprotected.group != kNone && unprotected_first) return {unprotected.group, false, true};
  return victim;
}

bool GroupBook::may_give_way(std::uint32_t number, const Victim& victim,
                             base::TimeNs now_ns) const noexcept {
  const Group& g = groups_[number];
  if (!g.queued || victim.group == kNone || victim.breaks_lease) return false;
  if (g.account != groups_[victim.group].account) return false;
  return !victim.unprotected || g.used_ns + kProtectedNs <= now_ns;
}

bool GroupBook::may_replace(std::uint32_t number, const Victim& victim, std::uint32_t times,
                            base::TimeNs now_ns) const noexcept {
  return may_give_way(number, victim, now_ns) &&
         policy_->may_replace(number, victim.group, times, now_ns);
}

const char* GroupBook::audit(const Table<Record>& records) const noexcept {
  if (const char* wrong = index_.audit()) return wrong;
  if (index_.entries() != groups_.used()) return "groups and their index differ";
  std::uint32_t groups = 0;
  std::uint64_t pinned = 0;
  std::vector<std::uint64_t> pinned_bytes(accounts_.end());
  for (std::uint32_t n = 1; n <= groups_.highest(); ++n) {
    const Group& g = groups_[n];
    if (g.members.empty()) continue;  // not in use, or the count below is wrong
    if (int{g.leased} + int{g.queued} + int{g.pinned} != 1) {
      return "a group is neither leased nor evictable nor pinned, or several of these";
    }
    pinned += g.pinned ? 1 : 0;
    pinned_bytes[g.account] += g.pinned ? g.extent_bytes : 0;
    if (wheel_.scheduled(g) != g.leased) return "a lease is not on the wheel, or no lease is";
    for (std::uint32_t m = g.members.front(); m != kNone; m = g.members.next(records, m)) {
      if (records[m].group != n) return "a member names another group";
    }
    ++groups;
  }
  if (groups != groups_.used()) return "groups are lost, or without members";
  std::uint64_t all_leased_bytes = 0;
  std::uint64_t all_pinned_bytes = 0;
  std::uint32_t leased = 0;
  for (std::uint32_t a = 1; a < accounts_.end(); ++a) {
    const Account& account = accounts_[a];
    std::uint64_t leased_bytes = 0;
    for (const bool probed : {false, true}) {
      const auto& list = probed ? account.probed : account.leased;
      for (std::uint32_t n = list.front(); n != kNone; n = list.next(groups_, n)) {
        const Group& g = groups_[n];
        if (!g.leased || g.probed != probed) return "a group is on the wrong list";
        if (g.account != a) return "a group is in the wrong account";
        leased_bytes += g.extent_bytes;
        ++leased;
      }
    }
    if (leased_bytes != account.leased_bytes) return "an account's leased bytes do not add up";
    if (pinned_bytes[a] != account.pinned_bytes) {
      return "an account's pinned bytes do not add up";
    }
    all_leased_bytes += leased_bytes;
    all_pinned_bytes += pinned_bytes[a];
  }
  std::uint32_t queued = 0;
  if (const char* wrong = policy_->audit(queued)) return wrong;
  if (leased + queued + pinned != groups) return "groups are neither leased nor queued nor pinned";
  if (pinned != pinned_groups_ || all_pinned_bytes != pinned_bytes_) return "pins do not add up";
  return all_leased_bytes == leased_bytes_ ? nullptr : "leased bytes do not add up";
}

}  // namespace simm::store
