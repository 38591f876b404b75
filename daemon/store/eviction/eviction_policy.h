// EvictionPolicy: the order in which groups leave. The seam between the group book, which knows
// what may leave, and a rule that says what should. The book enqueues a group that may be evicted,
// dequeues one that may not (it is leased, or gone), and reports each use.
//
// Every call is O(1) and none allocates. A policy keeps its lists in Group::order and what it wants
// to remember in Group::queue, Group::uses and Group::used_ns. Order is apart for each account: the
// book decides which tenant has to give way, the policy which of its groups goes.
// Thread: the data agent of the store.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/eviction/store_config.h"
#include "daemon/store/space/table.h"
#include "simm/expected.h"

namespace simm::store {

class EvictionPolicy {
public:
  // Who should leave next. Worth compares candidates of several accounts: the smaller one goes.
  struct Candidate {
    std::uint32_t group = kNone;
    double worth = 0;
  };

  // The members of a group one after the other are one use, and so are a put and a get behind it.
  static constexpr base::TimeNs kSameUseNs = base::kNsPerSecond;
  // Of Group::counted_tick, a byte: it comes round after more than twice kSameUseNs.
  static constexpr base::TimeNs kTickNs = kSameUseNs / 100;

  virtual ~EvictionPolicy() = default;
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

  // From now on the account is another tenant's; it has no group. Nothing to be told of the first.
  virtual void begin_account(std::uint32_t account) noexcept = 0;
  // A use of a group, queued or not; a new group's first one is its making.
  virtual void note_use(std::uint32_t group, base::TimeNs now_ns) noexcept = 0;
  // As the youngest of its account, or by its last use when that was before all of those queued.
  virtual void enqueue(std::uint32_t group) noexcept = 0;
  virtual void dequeue(std::uint32_t group) noexcept = 0;
  // The group leaves because it was a victim; before it is dequeued.
  virtual void note_eviction(std::uint32_t group) noexcept = 0;
  // What should leave next of an account; kNone: nothing of it is queued.
  [[nodiscard]] virtual Candidate candidate(std::uint32_t account,
                                            base::TimeNs now_ns) const noexcept = 0;
  // Whether a queued group may as well go instead of a candidate of its account. It may when it is
  // worth at most `times` times as much, or has been unused for as large a part of the candidate's
  // time.
  [[nodiscard]] virtual bool may_replace(std::uint32_t group, std::uint32_t candidate,
                                         std::uint32_t times,
                                         base::TimeNs now_ns) const noexcept = 0;
  // Walks the queues; null, or what is wrong. `queued` counts what it met. For tests.
  [[nodiscard]] virtual const char* audit(std::uint32_t& queued) const noexcept = 0;

protected:
  // `groups`: a view of the book's table; only elements that the book named are touched.
  explicit EvictionPolicy(Table<Group> groups) : groups_(groups) {}
  // Counts for Group::uses; false for a use that belongs to the one before it.
  bool count_use(std::uint32_t group, base::TimeNs now_ns) noexcept;

  Table<Group> groups_;
};

// `accounts`: account numbers are below this. Fails when memory is refused.
Expected<std::unique_ptr<EvictionPolicy>> make_eviction_policy(EvictionKind kind,
                                                               Table<Group> groups,
                                                               std::uint32_t accounts);

}  // namespace simm::store
