// TimerWheel: deadlines of an agent. Hierarchical (Varghese and Lauck, "Hashed and hierarchical
// timing wheels", scheme 7): 6 levels of 64 slots, insert and cancel O(1), no allocation. A bitmap
// per level finds the next occupied slot, so a long silence, or a jump of simulated time, costs no
// more than one tick. A timer never fires early and at most kTickNs (65.5 us) plus one turn late.
// Thread: the agent that owns the wheel.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "daemon/base/agent.h"
#include "daemon/base/intrusive_list.h"
#include "simm/check.h"

namespace simm::base {

struct TimerTag {};

// What has a deadline derives from (or contains) a Timer. Cancels itself when it dies.
class Timer : public ListLink<TimerTag> {
public:
  Timer() = default;
  ~Timer() { SIMM_CHECK(!linked()); }  // its wheel counts it: cancel first
  [[nodiscard]] TimeNs deadline_ns() const noexcept { return deadline_ns_; }
  [[nodiscard]] bool armed() const noexcept { return linked(); }

private:
  friend class TimerWheel;
  TimeNs deadline_ns_ = 0;
  std::uint8_t level_ = 0;
  std::uint8_t slot_ = 0;
};

class TimerWheel {
public:
  static constexpr std::uint32_t kTickShift = 16;
  static constexpr TimeNs kTickNs = TimeNs{1} << kTickShift;

  explicit TimerWheel(TimeNs now_ns) noexcept : now_tick_(now_ns >> kTickShift) {}

  // Arms `timer` (moves it when it is armed). A deadline in the past fires at the next tick.
  void arm(Timer& timer, TimeNs deadline_ns) noexcept {
    cancel(timer);
    timer.deadline_ns_ = deadline_ns;
    place(timer);
    ++armed_;
  }

  // Nothing happens when it is not armed.
  void cancel(Timer& timer) noexcept {
    if (!timer.linked()) return;
    timer.unlink();
    vacate(timer.level_, timer.slot_);
    --armed_;
  }

  // Calls `on_expired(Timer&)` for each timer whose deadline has passed; the timer is disarmed
  // before. The callback may arm and cancel any timer. Returns how many fired.
  template <typename Callback>
  int advance(TimeNs now_ns, Callback&& on_expired) noexcept {
    const std::uint64_t target = now_ns >> kTickShift;
    int fired = 0;
    Next next = next_slot();
    while (next.found && next.tick <= target) {
      now_tick_ = next.tick;
      fired += expire_slot(next.level, next.slot, on_expired);
      next = next_slot();
    }
    if (target > now_tick_) now_tick_ = target;
    return fired;
  }

  // When advance() next has something to do; kNoDeadline when no timer is armed. May be earlier
  // than the earliest deadline (a far timer moves to a finer level on its way), never later than
  // its tick.
  [[nodiscard]] TimeNs next_deadline_ns() const noexcept {
    const Next next = next_slot();
    return next.found ? next.tick << kTickShift : kNoDeadline;
  }

  [[nodiscard]] std::size_t armed() const noexcept { return armed_; }

private:
  static constexpr std::uint32_t kLevels = 6;
  static constexpr std::uint32_t kSlotBits = 6;
  static constexpr std::uint32_t kSlots = 1u << kSlotBits;
  static constexpr std::uint64_t kReachTicks = (std::uint64_t{1} << (kLevels * kSlotBits)) - 1;

  struct Level {
    std::uint64_t occupied = 0;
    std::array<IntrusiveList<Timer, TimerTag>, kSlots> slots;
  };
  struct Next {
    bool found = false;
    std::uint8_t level = 0;
    std::uint8_t slot = 0;
    std::uint64_t tick = 0;
  };

  // Rounds up, so that nothing fires early. The tick is at least one ahead, and at most the wheel's
  // reach: a timer beyond it is placed again when it gets there.
  [[nodiscard]] std::uint64_t tick_of(TimeNs deadline_ns) const noexcept {
    std::uint64_t tick = (deadline_ns >> kTickShift) + ((deadline_ns & (kTickNs - 1)) != 0 ? 1 : 0);
    if (tick <= now_tick_) tick = now_tick_ + 1;
    if (tick - now_tick_ > kReachTicks / 2) tick = now_tick_ + kReachTicks / 2;
    return tick;
  }

  void place(Timer& timer) noexcept {
    const std::uint64_t tick = tick_of(timer.deadline_ns_);
    // The level is where the highest bit differs: below it, `now` and `tick` share a slot.
    const std::uint64_t differs = (tick ^ now_tick_) | (kSlots - 1);
    std::uint32_t level = static_cast<std::uint32_t>(63 - std::countl_zero(differs)) / kSlotBits;
    if (level >= kLevels) level = kLevels - 1;  // the top level wraps around
    timer.level_ = static_cast<std::uint8_t>(level);
    timer.slot_ = static_cast<std::uint8_t>((tick >> (level * kSlotBits)) & (kSlots - 1));
    levels_[level].slots[timer.slot_].push_back(timer);
    levels_[level].occupied |= std::uint64_t{1} << timer.slot_;
  }

  void vacate(std::uint8_t level, std::uint8_t slot) noexcept {
    if (!levels_[level].slots[slot].empty()) return;
    levels_[level].occupied &= ~(std::uint64_t{1} << slot);
  }

  // A lower level always comes before a higher one, so the first occupied level decides.
  [[nodiscard]] Next next_slot() const noexcept {
    for (std::uint8_t level = 0; level < kLevels; ++level) {
      if (levels_[level].occupied == 0) continue;
      const std::uint32_t shift = level * kSlotBits;
      const std::uint64_t current = now_tick_ >> shift;
      const auto here = static_cast<int>(current & (kSlots - 1));
      const int ahead = std::countr_zero(std::rotr(levels_[level].occupied, here));
      const std::uint64_t tick = (current + static_cast<std::uint64_t>(ahead)) << shift;
      const auto slot =
          static_cast<std::uint8_t>(static_cast<std::uint32_t>(here + ahead) & (kSlots - 1));
      return {true, level, slot, tick < now_tick_ ? now_tick_ : tick};
    }
    return {};
  }

  template <typename Callback>
  int expire_slot(std::uint8_t level, std::uint8_t slot, Callback&& on_expired) noexcept {
    // Detached first: what the callback arms goes to a later slot, never into this round.
    IntrusiveList<Timer, TimerTag> due;
    due.splice_back(levels_[level].slots[slot]);
    vacate(level, slot);
    int fired = 0;
    while (Timer* timer = due.pop_front()) {
      // Far timers are kept by ticks; only a deadline that has passed fires.
      if (timer->deadline_ns_ > now_tick_ << kTickShift) {
        place(*timer);
        continue;
      }
      --armed_;
      ++fired;
      on_expired(*timer);
    }
    return fired;
  }

  std::uint64_t now_tick_;
  std::size_t armed_ = 0;
  std::array<Level, kLevels> levels_;
};

}  // namespace simm::base
