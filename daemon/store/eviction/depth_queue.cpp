#include "daemon/store/eviction/depth_queue.h"

#include <algorithm>
#include <bit>

namespace simm::store {

std::uint8_t DepthQueue::step_of(std::uint32_t depth) noexcept {
  if (depth == 0) return 0;
  const std::uint64_t units = std::uint64_t{depth} + 3;
  const auto octave = static_cast<std::uint32_t>(std::bit_width(units)) - 3;
  const auto step = 4 * octave + static_cast<std::uint32_t>(units >> octave) - 3;
  return static_cast<std::uint8_t>(std::min(step, kSteps - 1));
}

void DepthQueue::enqueue(Table<Group>& groups, std::uint32_t number) noexcept {
  const base::TimeNs used_ns = groups[number].used_ns;
  if (used_ns > span_end_ns_) {
    const std::uint32_t oldest = list_.front();
    const base::TimeNs age_ns =
        oldest == kNone || groups[oldest].used_ns > used_ns ? 0 : used_ns - groups[oldest].used_ns;
    older_ = list_.back(groups);
    span_begin_ns_ = used_ns;
    span_end_ns_ = used_ns + age_ns / kSpansPerAge;
    steps_ = 0;
  } else if (used_ns < span_begin_ns_ && enqueue_old(groups, number)) {
    return;
  }
  const std::uint32_t step = groups[number].depth_step;
  const std::uint64_t as_deep = steps_ >> step << step;
  // Behind the shallowest of those at least as deep.
  const std::uint32_t place =
      as_deep == 0 ? older_ : last_[static_cast<std::size_t>(std::countr_zero(as_deep))];
  if (place == kNone) {
    list_.push_front(groups, number);
  } else {
    list_.insert_after(groups, place, number);
  }
  steps_ |= std::uint64_t{1} << step;
  last_[step] = number;
}

bool DepthQueue::enqueue_old(Table<Group>& groups, std::uint32_t number) noexcept {
  if (older_ == kNone) return false;  // all are of one span
  const base::TimeNs used_ns = groups[number].used_ns;
  const std::uint32_t after_returned = returned_ == kNone ? kNone : list_.next(groups, returned_);
  if (after_returned != kNone && groups[returned_].used_ns <= used_ns &&
      used_ns < groups[after_returned].used_ns) {
    list_.insert_after(groups, returned_, number);
    if (older_ == returned_) older_ = number;
  } else if (used_ns < groups[list_.front()].used_ns) {
    list_.push_front(groups, number);
  } else {
    return false;
  }
  returned_ = number;
  return true;
}

void DepthQueue::remove(Table<Group>& groups, std::uint32_t number) noexcept {
  const std::uint32_t previous = before(groups, number);
  const std::uint32_t step = groups[number].depth_step;
  if (number == returned_) returned_ = previous;
  if (number == older_) {
    older_ = previous;
  } else if ((steps_ >> step & 1) != 0 && last_[step] == number) {
    if (previous != older_ && groups[previous].depth_step == step) {
      last_[step] = previous;
    } else {
      steps_ &= ~(std::uint64_t{1} << step);
    }
  }
  list_.remove(groups, number);
}

const char* DepthQueue::audit(const Table<Group>& groups) const noexcept {
  std::uint64_t steps = 0;
  std::uint32_t n = older_ == kNone ? list_.front() : list_.next(groups, older_);
  for (std::uint32_t deeper = kSteps; n != kNone; n = list_.next(groups, n)) {
    const std::uint32_t step = groups[n].depth_step;
    if (step > deeper) return "a queue is out of the order of depth";
    const std::uint32_t after = list_.next(groups, n);
    const bool last = after == kNone || groups[after].depth_step != step;
    if (last && last_[step] != n) return "a queue does not know the last of a depth";
    steps |= std::uint64_t{1} << step;
    deeper = step;
  }
  return steps == steps_ ? nullptr : "a queue's depths are wrong";
}

}  // namespace simm::store
