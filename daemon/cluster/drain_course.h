// DrainCourse: how a daemon that is asked to drain gives its slots away and goes on serving.
//
//   begin ──► draining: one step after the other ──► drained
//                │            deadline ──► the rest at once, cold ──► cut_short
//                └── cancel (also later) ──► the step that is under way ends ──► none
//
// In each step the daemon wants slots for less of its weight. The next step waits until the map
// says so and the objects of this step are with others. So only a small part of its objects is
// ever on its way. At the deadline it wants none, and what is left is dropped: these are misses.
//
// Owned by SlotHandover, or a test. A plain value. Thread: control.
#pragma once

#include <cstdint>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"

namespace simm::cluster {

enum class DrainState : std::uint8_t { none, draining, drained, cut_short };
const char* drain_state_name(DrainState state) noexcept;

class DrainCourse {
public:
  static constexpr std::uint32_t kStepsMax = 16;

  // What has come of the last step.
  struct Seen {
    std::uint64_t weight_bytes = 0;  // of this daemon in the newest map; 0: it is not in there
    bool has_moved_all = false;      // nothing of slots that it has lost is on its way
  };
  enum class Next : std::uint8_t {
    wait,
    want_less,  // tell the manager weight_bytes()
    drop_rest,  // the same, and offer nobody anything any more
    take_back,  // it was cancelled: forget() it, and tell the manager the whole weight
    end,        // it is over: see state()
  };

  // `whole_bytes`: the weight without a drain. With 0 steps it owns nothing now. Tell the manager
  // weight_bytes().
  void begin(std::uint64_t whole_bytes, std::uint32_t steps, base::TimeNs ends_ns) noexcept;
  // Slots that come back while their objects are on the way would lose them. So a step that is
  // under way ends first; look() says when.
  void cancel() noexcept;
  void forget() noexcept { *this = {}; }
  [[nodiscard]] Next look(base::TimeNs now_ns, const Seen& seen) noexcept;

  [[nodiscard]] DrainState state() const noexcept { return state_; }
  [[nodiscard]] bool is_on() const noexcept { return state_ != DrainState::none; }
  // And is not over yet.
  [[nodiscard]] bool is_cancelled() const noexcept { return is_cancelled_; }
  // The deadline is over: nothing follows its slot any more.
  [[nodiscard]] bool is_late() const noexcept { return is_late_; }
  [[nodiscard]] base::TimeNs ends_ns() const noexcept { return ends_ns_; }
  // What it wants slots for now; 0: none.
  [[nodiscard]] std::uint64_t weight_bytes() const noexcept;
  [[nodiscard]] std::uint32_t steps() const noexcept { return steps_; }
  [[nodiscard]] std::uint32_t steps_left() const noexcept { return steps_left_; }

private:
  DrainState state_ = DrainState::none;
  std::uint64_t whole_bytes_ = 0;
  std::uint32_t steps_ = 0;
  std::uint32_t steps_left_ = 0;
  base::TimeNs ends_ns_ = base::kNoDeadline;
  bool is_late_ = false;
  bool is_cancelled_ = false;
};

}  // namespace simm::cluster
