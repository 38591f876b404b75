#include "daemon/cluster/drain_course.h"

#include <algorithm>

namespace simm::cluster {

const char* drain_state_name(DrainState state) noexcept {
  switch (state) {
    case DrainState::none:
      return "none";
    case DrainState::draining:
      return "draining";
    case DrainState::drained:
      return "drained";
    case DrainState::cut_short:
      return "cut short";
  }
  return "unknown";
}

void DrainCourse::begin(std::uint64_t whole_bytes, std::uint32_t steps,
                        base::TimeNs ends_ns) noexcept {
  *this = {};
  state_ = DrainState::draining;
  whole_bytes_ = whole_bytes;
  steps_ = steps_left_ = std::min(steps, kStepsMax);
  ends_ns_ = ends_ns;
}

std::uint64_t DrainCourse::weight_bytes() const noexcept {
  if (!is_on()) return whole_bytes_;
  if (steps_left_ == 0) return 0;
  return std::max<std::uint64_t>(whole_bytes_ / steps_ * steps_left_, 1);
}

void DrainCourse::cancel() noexcept {
  is_cancelled_ = true;
  ends_ns_ = base::kNoDeadline;
}

DrainCourse::Next DrainCourse::look(base::TimeNs now_ns, const Seen& seen) noexcept {
  const bool can_wait = state_ == DrainState::draining && !is_late_;
  if (is_cancelled_ && !can_wait) return Next::take_back;
  if (state_ != DrainState::draining) return Next::wait;
  if (!is_late_ && now_ns >= ends_ns_) {
    is_late_ = true;
    steps_left_ = 0;
    return Next::drop_rest;
  }
  if (seen.weight_bytes != weight_bytes() || !seen.has_moved_all) return Next::wait;
  if (is_cancelled_) return Next::take_back;
  if (steps_left_ > 0) {
    --steps_left_;
    return Next::want_less;
  }
  state_ = is_late_ ? DrainState::cut_short : DrainState::drained;
  return Next::end;
}

}  // namespace simm::cluster
