// Compactor: makes one hole of several. What is in the way is moved, or evicted when that is
// cheaper and it would have to go soon anyway.
//
// There is one job at a time: it has the blocks of one HoleWindow, and advance() moves or evicts a
// bounded number of them. All of these blocks stay in use until the job is done, so that nothing
// comes to lie between them.
//
// Only what nobody uses is moved: visible, without a pin. The job pins the object as a reader
// would: its bytes stay as they are until the copy is whole, whatever becomes of the object. Then
// the record names the new place, in one turn. An object that somebody else reads at that moment
// stays where it is. Bytes, digest, generation, group and lease of an object are what they were. An
// object that has to make way is pinned as well, so that all of the window comes free at one
// moment.
// Thread: the data agent that owns the store.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/group_book.h"
#include "daemon/store/object_book.h"
#include "daemon/store/space/hole_window.h"

namespace simm::store {

class Compactor {
public:
  // `usual_bytes`: so much lies free in a store that is full. The book outlives the compactor.
  Compactor(ObjectBook& book, std::uint64_t usual_bytes) noexcept
      : book_(book), usual_bytes_(usual_bytes) {}

  [[nodiscard]] bool active() const noexcept { return count_ > 0; }
  // In use, but of no record: holes of the window, and the new places of its extents.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept {
    return active() ? bytes_ - evicted_bytes_ : 0;
  }
  // What is free when the job is done, and is not now.
  [[nodiscard]] std::uint64_t free_soon_bytes() const noexcept { return active() ? bytes_ : 0; }
  // Whether a put of `wanted` bytes does well to wait for the job.
  [[nodiscard]] bool serves(std::uint64_t wanted) const noexcept {
    return active() && wanted <= bytes_ && wanted > bytes_ / 2;
  }

  // Starts to make one hole of at least `bytes` by moving objects that nobody uses. False: that
  // would cost more than `bytes` of copying, or they fit nowhere else. No job is active.
  [[nodiscard]] bool begin_moves(std::uint64_t bytes) noexcept;
  // The same, but objects that could leave instead of the next victim go; the others are moved.
  [[nodiscard]] bool begin_clearing(const Need& need, base::TimeNs now_ns) noexcept;
  // A part of the job, or the rest of it.
  void advance(base::TimeNs now_ns) noexcept;

  // An object may make way out of turn if it is worth at most so many times the next victim. 0:
  // none makes way, the next victim goes. Going out of turn costs hits, so in a full store none
  // does. The costs pay for an object as long as many others, and the more so the more memory lies
  // idle in short holes.
  [[nodiscard]] std::uint32_t times_worth(std::uint64_t extent_bytes) const noexcept;

  // The hand: behind which object clearing goes on. The hand passes an object that got a hole of
  // its own, and what is put behind that: so long objects come to lie side by side.
  void note_place(std::uint32_t record) noexcept;
  // kNone: at the beginning of the arena.
  [[nodiscard]] std::uint32_t block_at_hand() const noexcept;

private:
  template <typename WayOutOf>
  [[nodiscard]] bool begin_job(const HoleWindow& window, const WayOutOf& way_out_of) noexcept;
  // An object that is in the way, with others of its group; returns how many went.
  std::uint32_t evict_for_job(std::uint32_t record, base::TimeNs now_ns) noexcept;
  // Whatever can be elsewhere is, when all is done.
  void end_job(bool done) noexcept;
  void set_hand(std::uint32_t record) noexcept;
  // Moves the hand from this block on, to an extent beside a hole that can be evicted, or as far as
  // a search may go. Returns where the hand stands.
  template <typename WayOutOf>
  [[nodiscard]] std::uint32_t sweep(std::uint32_t block, const WayOutOf& way_out_of) noexcept;

  ObjectBook& book_;
  const std::uint64_t usual_bytes_;
  std::uint32_t count_ = 0;                                   // blocks; 0: there is no job
  std::uint32_t at_ = 0;                                      // the block that is copied next,
  std::uint64_t copied_ = 0;                                  // and how much of it has been
  std::uint64_t bytes_ = 0;                                   // of the hole that the job makes
  std::uint64_t evicted_bytes_ = 0;                           // of these: extents given up
  std::uint64_t made_bytes_ = 0;                              // of the last job's hole
  Need need_;                                                 // for whom they are
  std::uint32_t hand_ = kNone;                                // a record, if it still is
  std::uint64_t hand_offset_ = 0;                             // where it was then
  std::array<std::uint32_t, HoleWindow::kBlocksMax> blocks_;  // of the window, by address
  std::array<std::uint32_t, HoleWindow::kBlocksMax> places_;  // where they go; kNone: nowhere
};

}  // namespace simm::store
