// SharedReadRoom: the shared reads of a shard, and the memory that they take. The room finds the
// one that serves a page, and makes room for a new one. What nobody uses now stays until it is too
// old; the copy that was not used for longest is taken back first. To fetch, to wait and to copy
// are the server's matter.
//
// A shared read is, one after the other: queued (of its tenant, for a fetch), fetching, and landed.
// It rests when it has landed and nobody uses it; wake() takes it from there. forget(): nobody
// finds it any more. discard(): it is gone.
//
// Owned by the SharedReadServer; clock, marks and counters outlive it. No allocation after
// construction. Thread: its data agent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/engine/write_marks.h"
#include "daemon/shared_reads/shared_read.h"
#include "daemon/shared_reads/shared_read_config.h"
#include "daemon/shared_reads/shared_read_counters.h"
#include "daemon/shared_reads/tenant_shares.h"
#include "daemon/store/space/extent_allocator.h"
#include "daemon/store/space/hash_index.h"
#include "daemon/store/space/table.h"

namespace simm::shared_reads {

class SharedReadRoom {
public:
  struct Tables {
    store::HashIndex index;
    store::Table<SharedRead> shared_reads;
    store::Table<store::PackedBlock> blocks;
  };

  // `bytes`: of the memory that its extents lie in.
  SharedReadRoom(const SharedReadConfig& config, const base::Clock& clock,
                 const engine::WriteMarks& marks, SharedReadCounters& counters,
                 const Tables& tables, std::uint64_t bytes);

  // A shared read that serves this page, or kNone; one that does not any more is found by nobody
  // then.
  [[nodiscard]] std::uint32_t joinable(const transport::RequestHeader& header,
                                       const transport::PageRequest& page) noexcept;
  // A new one, queued; kNone when what is in use, or others' part, leaves no room.
  [[nodiscard]] std::uint32_t start(const SharedReadJob& job,
                                    const transport::PageRequest& page) noexcept;

  void queue(std::uint32_t shared_read) noexcept;
  void unqueue(std::uint32_t shared_read) noexcept;
  // All tenants together.
  [[nodiscard]] std::uint32_t queued() const noexcept { return queued_; }

  // The fetch of one that was queued begins now.
  void begin_fetch(std::uint32_t shared_read) noexcept;

  // A reader knows that the key has one value for ever.
  void note_immutable(std::uint32_t shared_read) noexcept;
  // Its owner had an object of that key at `asked_ns` still.
  void confirm(std::uint32_t shared_read, base::TimeNs asked_ns) noexcept;
  // Its owner has no such object: nobody is given the copy any more.
  void refute(std::uint32_t shared_read) noexcept;
  using ConfirmList = store::IndexList<SharedRead, &SharedRead::confirmable>;
  // Copies of immutable namespaces, about in the order in which they were confirmed.
  [[nodiscard]] ConfirmList& confirmable() noexcept { return confirmable_; }
  // It is there and immutable: its owner is to be asked about it from time to time.
  void watch(std::uint32_t shared_read) noexcept;

  void forget(std::uint32_t shared_read) noexcept;
  // Nobody uses it now, and it is on no list of its state: it rests, or is gone when nobody could
  // join it.
  void rest(std::uint32_t shared_read) noexcept;
  // Undoes rest().
  void wake(std::uint32_t shared_read) noexcept;
  // The end: nobody uses it, and it is on no list of its state.
  void discard(std::uint32_t shared_read) noexcept;

  // Ready, and nobody uses it now.
  [[nodiscard]] static bool is_idle(const SharedRead& shared_read) noexcept {
    return shared_read.state == SharedReadState::ready && shared_read.users == 0 &&
           shared_read.waiters.empty();
  }

  [[nodiscard]] static std::uint64_t extent_bytes(const SharedRead& shared_read) noexcept {
    return store::ExtentAllocator::rounded(shared_read.capacity_bytes);
  }

  [[nodiscard]] store::Table<SharedRead>& table() noexcept { return shared_reads_; }
  [[nodiscard]] const store::Table<SharedRead>& table() const noexcept { return shared_reads_; }
  [[nodiscard]] TenantShares& shares() noexcept { return shares_; }
  [[nodiscard]] const TenantShares& shares() const noexcept { return shares_; }

  // Recounts everything; null, or what does not add up, beside what the server says that there are.
  // For tests: O(everything).
  struct Known {
    std::uint32_t jobs;
    std::uint32_t fetches;
    const store::Table<Waiter>& waiters;
  };
  [[nodiscard]] const char* audit(const Known& known) const noexcept;

private:
  [[nodiscard]] std::uint32_t find(const transport::RequestHeader& header,
                                   const transport::PageRequest& page) noexcept;
  [[nodiscard]] bool is_current(const SharedRead& shared_read, bool immutable) const noexcept;
  [[nodiscard]] std::uint32_t make_room(std::uint32_t share, std::uint64_t bytes) noexcept;
  [[nodiscard]] std::uint32_t choose_victim(std::uint32_t share, std::uint64_t bytes) noexcept;

  using SharedReadList = store::IndexList<SharedRead, &SharedRead::order>;
  using AgeList = store::IndexList<SharedRead, &SharedRead::age>;

  const SharedReadConfig& config_;
  const base::Clock& clock_;
  const engine::WriteMarks& marks_;
  SharedReadCounters& counters_;
  store::Table<SharedRead> shared_reads_;
  store::HashIndex index_;
  store::ExtentAllocator extents_;
  TenantShares shares_;
  SharedReadList idle_;  // ready and indexed, without users and waiters, the oldest use first
  AgeList by_age_;       // those that may be too old are looked for here
  ConfirmList confirmable_;
  std::uint32_t queued_ = 0;  // shared reads
  std::uint64_t serials_ = 0;
};

}  // namespace simm::shared_reads
