// ReusePolicy: what the account's ReuseModel says is worth least goes first. While the account's
// PolicyContest says that age does better, the least recently used does. An account has a queue for
// each class of the model, in the order of last use (of one time: of depth). Only the oldest of
// each class are compared, and the last that came. A group that was evicted and comes back counts
// on from where it was. Otherwise a cache that is small for its traffic never finds out what is
// used again.
//
// Accounts share nothing but the table of ghosts, of which each has its part: what one tenant does
// teaches the store nothing about another. What an account needs, some 500 KiB, is in address space
// taken at once, and made when the account has its first group. Thread: the data agent of the
// store.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "daemon/store/eviction/depth_queue.h"
#include "daemon/store/eviction/eviction_policy.h"
#include "daemon/store/eviction/ghost_table.h"
#include "daemon/store/eviction/policy_contest.h"
#include "daemon/store/eviction/reuse_model.h"
#include "daemon/store/space/reserved_memory.h"

namespace simm::store {

class ReusePolicy final : public EvictionPolicy {
public:
  // What one account takes at most, from its first group on.
  static constexpr std::uint32_t kReuseBytesMax = 512 * 1024;

  // `memory`: bytes_for(accounts) of it.
  ReusePolicy(Table<Group> groups, std::uint32_t accounts, ReservedMemory memory,
              GhostTable ghosts);
  static std::size_t bytes_for(std::uint32_t accounts) noexcept { return accounts * sizeof(Place); }

  void begin_account(std::uint32_t account) noexcept override;
  void note_use(std::uint32_t group, base::TimeNs now_ns) noexcept override;
  void enqueue(std::uint32_t group) noexcept override;
  void dequeue(std::uint32_t group) noexcept override;
  void note_eviction(std::uint32_t group) noexcept override;
  [[nodiscard]] Candidate candidate(std::uint32_t account,
                                    base::TimeNs now_ns) const noexcept override;
  [[nodiscard]] bool may_replace(std::uint32_t group, std::uint32_t candidate, std::uint32_t times,
                                 base::TimeNs now_ns) const noexcept override;
  [[nodiscard]] const char* audit(std::uint32_t& queued) const noexcept override;

private:
  // What is known of one account.
  struct Tenancy {
    std::array<DepthQueue, ReuseModel::kClasses> queues;
    std::uint32_t queued = 0;
    ReuseModel model;
    PolicyContest contest;
  };
  // Where that is: memory that is zero until it is used.
  struct alignas(64) Place {
    ReuseModel::Memory model;
    PolicyContest::Memory contest;
    alignas(Tenancy) std::array<std::byte, sizeof(Tenancy)> tenancy;
  };
  static_assert(sizeof(Place) <= kReuseBytesMax && std::is_trivially_copyable_v<Place>);

  [[nodiscard]] Candidate oldest_of(const Tenancy& t, base::TimeNs now_ns) const noexcept;
  [[nodiscard]] Candidate cheapest_of(const Tenancy& t, base::TimeNs now_ns) const noexcept;
  [[nodiscard]] static base::TimeNs age_of(const Group& g, base::TimeNs now_ns) noexcept {
    return now_ns > g.used_ns ? now_ns - g.used_ns : 0;
  }
  [[nodiscard]] static float worth_of(const Tenancy& t, const Group& g,
                                      base::TimeNs now_ns) noexcept {
    return t.model.worth(ReuseModel::class_of(g.uses), age_of(g, now_ns));
  }
  // Of an account that has, or had, a group.
  [[nodiscard]] Tenancy& tenancy_of(const Group& g) noexcept { return *tenancies_[g.account]; }
  [[nodiscard]] static DepthQueue& queue_of(Tenancy& t, const Group& g) noexcept {
    return t.queues[ReuseModel::class_of(g.uses)];
  }

  ReservedMemory memory_;
  std::vector<Tenancy*> tenancies_;  // by account; never grows; null: it had no group yet
  GhostTable ghosts_;
  std::uint32_t queued_ = 0;  // of all accounts
};

}  // namespace simm::store
