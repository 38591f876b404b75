// GroupBook: who may leave, and when. Groups of objects, apart for each tenant; the leases on
// groups; what each tenant holds of its quota. Which of the groups without a lease leaves next is
// for the EvictionPolicy to say.
//
// Groups under a lease are on a list of their account, oldest grant first; all others are in the
// policy's queues, where a group comes back as the youngest when its lease ends. Finding the next
// victim is O(1).
//
// The lease budget is enforced when it is needed: as long as something else can go, leases may hold
// more than the budget; when nothing else can, the oldest lease gives way while they hold too much.
// Thread: the data agent of the store.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/store/eviction_policy.h"
#include "daemon/store/expiry_wheel.h"
#include "daemon/store/hash_index.h"
#include "daemon/store/record.h"
#include "daemon/store/store_config.h"
#include "daemon/store/table.h"

namespace simm::store {

// What one tenant holds. Numbers start at 1; kNone is no account.
struct Account {
  base::TenantId tenant;
  bool configured = false;  // has a quota of its own, stays when empty
  std::uint64_t quota_bytes = 0;
  std::uint64_t extent_bytes = 0;  // of all its records, reserved and lingering ones included
  std::uint64_t leased_bytes = 0;
  std::uint32_t records = 0;
  IndexList<Group, &Group::order> leased;
};

class GroupBook {
public:
  struct Victim {
    std::uint32_t group = kNone;
    bool breaks_lease = false;
  };

  // `policy` was made for the same groups, and for accounts_for(config) accounts.
  GroupBook(const StoreConfig& config, std::uint64_t arena_bytes, Table<Group> groups,
            HashIndex index, std::unique_ptr<EvictionPolicy> policy);

  // Account numbers are below this.
  static std::uint32_t accounts_for(const StoreConfig& config) noexcept;

  // The account of a tenant, made at its first use; kNone when there are too many.
  [[nodiscard]] std::uint32_t account_of(base::TenantId tenant) noexcept;
  [[nodiscard]] Account& account(std::uint32_t number) noexcept { return accounts_[number]; }
  [[nodiscard]] const Account& account(std::uint32_t number) const noexcept {
    return accounts_[number];
  }
  [[nodiscard]] std::uint32_t accounts_end() const noexcept {
    return static_cast<std::uint32_t>(accounts_.size());
  }

  // The group, made when it is not there. The table has a group for each record: it never fails.
  [[nodiscard]] std::uint32_t find_or_make(std::uint64_t hash, std::uint32_t account,
                                           base::TimeNs now_ns) noexcept;
  [[nodiscard]] Group& group(std::uint32_t number) noexcept { return groups_[number]; }
  [[nodiscard]] const Table<Group>& groups() const noexcept { return groups_; }

  // Joins or leaves; a group without members is gone.
  void add_member(Table<Record>& records, std::uint32_t group, std::uint32_t record,
                  std::uint64_t extent_bytes) noexcept;
  void remove_member(Table<Record>& records, std::uint32_t record,
                     std::uint64_t extent_bytes) noexcept;

  // A use of a group without a lease; a lease's age does not change by this.
  void touch(std::uint32_t group, base::TimeNs now_ns) noexcept;
  // Grants or renews: a lease never gets shorter.
  void lease(std::uint32_t group, base::TimeNs now_ns, base::TimeNs lease_ns) noexcept;
  // The same, but a group under a lease keeps its age.
  void extend_lease(std::uint32_t group, base::TimeNs now_ns, base::TimeNs lease_ns) noexcept;

  // Ends leases whose time has come, at most `budget` of them; returns how many groups it met.
  int end_leases(base::TimeNs now_ns, int budget) noexcept;

  // What to evict next, of one account or (kNone) of all; the caller removes its members.
  [[nodiscard]] Victim victim(std::uint32_t account, base::TimeNs now_ns) const noexcept;
  // The same of all accounts, but leaves every lease alone.
  [[nodiscard]] std::uint32_t unleased_victim(base::TimeNs now_ns) const noexcept;
  // Before the members of a victim are removed.
  void note_eviction(std::uint32_t group) noexcept { policy_->note_eviction(group); }

  [[nodiscard]] std::uint64_t leased_bytes() const noexcept { return leased_bytes_; }
  [[nodiscard]] const char* audit(const Table<Record>& records) const noexcept;

  void prefetch(std::uint32_t group) const noexcept { __builtin_prefetch(&groups_[group]); }
  void prefetch_neighbours(std::uint32_t group) const noexcept {
    __builtin_prefetch(&groups_[groups_[group].order.previous]);
    __builtin_prefetch(&groups_[groups_[group].order.next]);
  }

private:
  void set_leased(std::uint32_t group, bool leased) noexcept;
  [[nodiscard]] bool over_lease_budget(const Account& account) const noexcept;

  Table<Group> groups_;
  HashIndex index_;
  std::unique_ptr<EvictionPolicy> policy_;
  ExpiryWheel<Group, &Group::lease> wheel_;
  std::vector<Account> accounts_;  // fixed size; [0] is unused
  std::uint32_t last_account_ = kNone;
  std::uint64_t arena_bytes_;
  std::uint32_t lease_budget_percent_;
  std::uint64_t leased_bytes_ = 0;
};

}  // namespace simm::store
