// Compactor: makes one hole of several. What is in the way is moved, or evicted when that is
// cheaper and it would have to go soon anyway.
//
// There is one job at a time: the blocks of one HoleWindow, of which advance() moves or evicts a
// bounded number. All of these blocks stay in use until the job is done, so that nothing comes to
// lie between them.
//
// Only what nobody uses is moved: visible, without a pin. The job pins it as a reader would, so
// that its bytes stay as they are, whatever becomes of the object, until the copy is whole; then
// the record names the new place, in one turn. Whom somebody else reads at that moment stays where
// it is. Bytes, digest, generation, group and lease of an object are what they were.
// Who has to make way is pinned likewise, so that all of the window comes free at one moment.
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

  // Starts to make one hole of at least `bytes` by moving objects that nobody uses; false when that
  // would cost more than `bytes` of copying, or they fit nowhere else. There is no job.
  [[nodiscard]] bool begin_moves(std::uint64_t bytes) noexcept;
  // The same, where those go that could leave instead of the next victim; the others are moved.
  [[nodiscard]] bool begin_clearing(const Need& need, base::TimeNs now_ns) noexcept;
  // A part of the job, or the rest of it.
  void advance(base::TimeNs now_ns) noexcept;

  // How many times as much as the next victim's worth may be that of those who make way for an
  // object of this length. 0: nobody makes way, the next victim goes. In a store that is about as
  // full as it can be nobody goes out of turn: that costs hits. Only when more memory than usual
  // lies idle in short holes, the more of it the dearer, or for an object as long as many others.
  [[nodiscard]] std::uint32_t times_worth(std::uint64_t extent_bytes) const noexcept;

  // The hand: behind which object clearing goes on. An object that got a hole of its own is passed,
  // and so is who is put behind it: so long objects come to lie side by side.
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
  // a search may go; returns where it stands.
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
