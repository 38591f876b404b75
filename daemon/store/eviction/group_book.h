// GroupBook: who may leave, and when. Groups of objects, apart for each tenant; the leases on
// groups; which tenant gives way. Which of its groups without a lease leaves next is for the
// EvictionPolicy to say.
//
// Groups under a lease are on a list of their account, oldest grant first. All others are in the
// policy's queues. When its lease ends, a group comes back among the oldest if it was unused for
// longer than those, else as the youngest. Finding the next victim is O(1) in groups and
// O(accounts).
//
// The tenant that holds most for its weight (AccountBook) gives way, with what its policy chooses.
// While leases keep more than their budget of its share, its oldest lease breaks before anything
// younger goes, and leases of probes before those of gets. A pinned group is on neither: it never
// gives way, and pins have a small budget of their own. So a tenant that leases or puts as much as
// it can takes neither leases nor room from a tenant within its share.
// Thread: the data agent of the store.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/store/eviction/account_book.h"
#include "daemon/store/eviction/eviction_policy.h"
#include "daemon/store/eviction/expiry_wheel.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/eviction/store_config.h"
#include "daemon/store/eviction/store_spectrum.h"
#include "daemon/store/space/hash_index.h"
#include "daemon/store/space/table.h"

namespace simm::store {

// Why something has to go: a tenant brings an object, or (account kNone) there should be more in
// stock. Leases are broken for an object that comes, never to have room in stock.
struct Need {
  std::uint32_t account = kNone;
  std::uint64_t extent_bytes = 0;
  Scarce scarce = Scarce::bytes;
};

class GroupBook {
public:
  struct Victim {
    std::uint32_t group = kNone;
    bool breaks_lease = false;
    bool unprotected = false;  // within its tenant's share, but nobody has used it for long
  };

  // A share protects what was used in this time; what nobody has used for longer competes with
  // everything else. So a tenant that has gone home does not keep memory from those who work.
  static constexpr base::TimeNs kProtectedNs = 600 * base::kNsPerSecond;

  // While leases keep more than their budget, what was put or used in this time outlives the oldest
  // lease, even if that one was used later. Else a put would push out the one before it.
  static constexpr base::TimeNs kFreshNs = 5 * base::kNsPerSecond;

  // `policy` was made for the same groups, and for AccountBook::count_for(config) accounts.
  GroupBook(const StoreConfig& config, std::uint64_t arena_bytes, Table<Group> groups,
            HashIndex index, std::unique_ptr<EvictionPolicy> policy);

  [[nodiscard]] AccountBook& accounts() noexcept { return accounts_; }
  [[nodiscard]] const AccountBook& accounts() const noexcept { return accounts_; }

  // The group, made when it is not there: of the depth of its first member then. The table has a
  // group for each record: it never fails.
  [[nodiscard]] std::uint32_t find_or_make(const Record& member, base::TimeNs now_ns) noexcept;
  [[nodiscard]] Group& group(std::uint32_t number) noexcept { return groups_[number]; }
  [[nodiscard]] const Table<Group>& groups() const noexcept { return groups_; }

  // Joins or leaves; a group without members is gone.
  void add_member(Table<Record>& records, std::uint32_t group, std::uint32_t record,
                  std::uint64_t extent_bytes) noexcept;
  void remove_member(Table<Record>& records, std::uint32_t record,
                     std::uint64_t extent_bytes) noexcept;

  // A use of a group without a lease; a lease's age does not change by this.
  void touch(std::uint32_t group, base::TimeNs now_ns) noexcept;
  // A use, and a lease: grants or renews, a lease never gets shorter.
  void lease(std::uint32_t group, base::TimeNs now_ns, base::TimeNs lease_ns) noexcept;
  // The same without a use: its place in the order of use is what it would be without the lease.
  // `probed`: a probe asks, and its lease gives way before any that somebody read under.
  void keep(std::uint32_t group, base::TimeNs now_ns, base::TimeNs lease_ns, bool probed) noexcept;
  // As lease(), but a group under a lease keeps its age.
  void extend_lease(std::uint32_t group, base::TimeNs now_ns, base::TimeNs lease_ns) noexcept;

  // Keeps the group until it is unpinned or has no members any more; a lease goes on beside. False:
  // it would keep more than the budget for pins allows.
  [[nodiscard]] bool pin(std::uint32_t group) noexcept;
  void unpin(std::uint32_t group, base::TimeNs now_ns) noexcept;
  // Whether an account may keep so many bytes more by pins than it does.
  [[nodiscard]] bool may_pin(const Account& account, std::uint64_t more_bytes) const noexcept;

  // Ends leases whose time has come, at most `budget` of them; returns how many groups it met.
  int end_leases(base::TimeNs now_ns, int budget) noexcept;

  // What to evict next for a need that the store as a whole can not meet; the caller removes its
  // members. Nobody within its share gives way to somebody who holds more for its weight.
  [[nodiscard]] Victim victim(const Need& need, base::TimeNs now_ns) const noexcept;
  // The same for an account that needs room within its own quota.
  [[nodiscard]] Victim quota_victim(std::uint32_t account, base::TimeNs now_ns) const noexcept;
  // Whether this group may go in the place of a victim. It may when its tenant gives way by the
  // same rule, and its policy says it is worth at most `times` times as much.
  [[nodiscard]] bool may_replace(std::uint32_t group, const Victim& victim, std::uint32_t times,
                                 base::TimeNs now_ns) const noexcept;
  // The first half of that.
  [[nodiscard]] bool may_give_way(std::uint32_t group, const Victim& victim,
                                  base::TimeNs now_ns) const noexcept;
  // Before the members of a victim are removed.
  void note_eviction(std::uint32_t group) noexcept { policy_->note_eviction(group); }

  [[nodiscard]] std::uint64_t leased_bytes() const noexcept { return leased_bytes_; }
  [[nodiscard]] std::uint64_t pinned_bytes() const noexcept { return pinned_bytes_; }
  [[nodiscard]] std::uint64_t pinned_groups() const noexcept { return pinned_groups_; }
  [[nodiscard]] const ReuseAges& reused_by_age() const noexcept { return reused_by_age_; }
  [[nodiscard]] const char* audit(const Table<Record>& records) const noexcept;

  // Inline always, see HashIndex::prefetch().
  [[gnu::always_inline]] void prefetch_index(std::uint64_t hash) const noexcept {
    index_.prefetch(hash);
  }
  void prefetch(std::uint32_t group) const noexcept { __builtin_prefetch(&groups_[group]); }
  void prefetch_neighbours(std::uint32_t group) const noexcept {
    __builtin_prefetch(&groups_[groups_[group].order.previous]);
    __builtin_prefetch(&groups_[groups_[group].order.next]);
  }

private:
  void note_use(std::uint32_t group, base::TimeNs now_ns) noexcept;
  void set_leased(std::uint32_t group, bool leased, bool probed = false) noexcept;
  enum class Kept : std::uint8_t { more, less };
  // A lease or pin of this group keeps so many bytes more or less.
  void count_kept(const Group& group, std::uint64_t bytes, Kept kept) noexcept;
  // Leases keep more than their budget of what is scarce.
  [[nodiscard]] bool over_lease_budget(const Account& account, Scarce scarce) const noexcept;
  // Whether a lease of the account breaks before this candidate of its queues goes, given that
  // leases keep more than their budget.
  [[nodiscard]] bool outlives_lease(std::uint32_t candidate, const Account& account,
                                    base::TimeNs now_ns) const noexcept;

  Table<Group> groups_;
  HashIndex index_;
  std::unique_ptr<EvictionPolicy> policy_;
  ExpiryWheel<Group, &Group::lease> wheel_;
  AccountBook accounts_;
  const std::uint64_t arena_bytes_;
  const std::uint32_t lease_budget_percent_;
  const std::uint32_t pin_budget_percent_;
  std::uint64_t leased_bytes_ = 0;
  std::uint64_t pinned_bytes_ = 0;
  std::uint64_t pinned_groups_ = 0;
  ReuseAges reused_by_age_{};
};

}  // namespace simm::store
