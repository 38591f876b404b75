// DepthQueue: groups in the order in which they came. Of those that came at nearly the same time
// the deeper ones are first: without its head the tail of a prefix is worth nothing.
//
// Nearly the same time is a span: it ends when a 128th of the age has passed that the oldest group
// had when the span began, so the order differs from that of age by no more. In
// the newest span groups are sorted by their step of depth, as by a radix: one remembered place for
// each step. Equal steps keep the order in which they came. Groups without a hint (step 0) are the
// last: where nobody gives hints, this is a plain queue.
//
// Who comes with a last use before that of the oldest (a lease kept it, and nobody used it
// meanwhile) takes its place at the old end; several that come one after the other keep their
// order.
//
// Every call is O(1) and allocates nothing. Thread: the data agent of the store.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/space/table.h"

namespace simm::store {

class DepthQueue {
public:
  static constexpr std::uint32_t kSteps = 64;  // of depth: four to the octave, from 1 page on

  // The step of a page at this position of its prefix; 0: unknown.
  static std::uint8_t step_of(std::uint32_t depth) noexcept;

  [[nodiscard]] std::uint32_t front() const noexcept { return list_.front(); }
  // The deepest of the newest span; kNone: all of that span have left.
  [[nodiscard]] std::uint32_t newest(const Table<Group>& groups) const noexcept {
    return older_ == kNone ? list_.front() : list_.next(groups, older_);
  }
  // The group behind `number`, kNone at the end.
  [[nodiscard]] std::uint32_t next(const Table<Group>& groups,
                                   std::uint32_t number) const noexcept {
    return list_.next(groups, number);
  }
  // Whether a use of a queued group at this time leaves it where it is.
  [[nodiscard]] bool keeps_place(const Table<Group>& groups, std::uint32_t number,
                                 base::TimeNs now_ns) const noexcept {
    const std::uint32_t step = groups[number].depth_step;
    return (steps_ >> step & 1) != 0 && last_[step] == number && now_ns <= span_end_ns_;
  }
  // Into the newest span, or a new one, by Group::used_ns and Group::depth_step. Neither of
  // account nor depth_step may change while the group is queued.
  void enqueue(Table<Group>& groups, std::uint32_t number) noexcept;
  void remove(Table<Group>& groups, std::uint32_t number) noexcept;

  // Walks the newest span; null, or what is wrong. For tests.
  [[nodiscard]] const char* audit(const Table<Group>& groups) const noexcept;

private:
  static constexpr base::TimeNs kSpansPerAge = 128;

  // True when it belongs to the old end, where it is then.
  [[nodiscard]] bool enqueue_old(Table<Group>& groups, std::uint32_t number) noexcept;
  [[nodiscard]] std::uint32_t before(const Table<Group>& groups,
                                     std::uint32_t number) const noexcept {
    return number == list_.front() ? kNone : groups[number].order.previous;
  }

  IndexList<Group, &Group::order> list_;
  std::uint32_t older_ = kNone;               // the last group before the newest span
  std::uint32_t returned_ = kNone;            // the last one that took a place at the old end
  base::TimeNs span_begin_ns_ = 0;            // use of the first of the newest span
  base::TimeNs span_end_ns_ = 0;              // who was used later begins another span
  std::uint64_t steps_ = 0;                   // bit: the newest span has a group of this step,
  std::array<std::uint32_t, kSteps> last_{};  // and which of these is the last
};

}  // namespace simm::store
