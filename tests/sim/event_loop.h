// EventLoop: virtual time and the queue of everything that is going to happen in it. Events of the
// same instant run in the order in which they were pushed, so a run is a function of its seed.
// Every event feeds the fingerprint: two runs that differ anywhere differ in it.
// Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "daemon/base/clock.h"

namespace simm::sim {

inline constexpr base::TimeNs kUs = 1'000;
inline constexpr base::TimeNs kMs = base::kNsPerMs;
inline constexpr base::TimeNs kSecond = base::kNsPerSecond;

class EventLoop {
public:
  using Action = std::function<void()>;

  [[nodiscard]] base::TimeNs now_ns() const noexcept { return now_ns_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return executed_; }
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  // A time in the past means now.
  void at(base::TimeNs when_ns, Action action);
  void after(base::TimeNs delay_ns, Action action) { at(now_ns_ + delay_ns, std::move(action)); }

  // Runs every event up to and including `until_ns`, then stands at `until_ns`.
  void run_until(base::TimeNs until_ns);

  // No event runs any more.
  void stop() noexcept { stopped_ = true; }

  // Mixes a value into the fingerprint.
  void note(std::uint64_t value) noexcept;

private:
  struct Event {
    base::TimeNs when_ns;
    std::uint64_t order;
    Action action;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const noexcept {
      return a.when_ns != b.when_ns ? a.when_ns > b.when_ns : a.order > b.order;
    }
  };

  // Not 0, because 0 is no time in use; not small, so that clocks can be set back against it.
  base::TimeNs now_ns_ = 1'000 * kSecond;
  bool stopped_ = false;
  std::uint64_t pushed_ = 0;
  std::uint64_t executed_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
};

// The monotonic clock of one simulated process: the same speed, another origin.
class ProcessClock final : public base::Clock {
public:
  ProcessClock(const EventLoop& loop, base::TimeNs ahead_ns) : loop_(loop), ahead_ns_(ahead_ns) {}
  [[nodiscard]] base::TimeNs now_ns() const noexcept override { return loop_.now_ns() + ahead_ns_; }
  [[nodiscard]] base::TimeNs ahead_ns() const noexcept { return ahead_ns_; }

private:
  const EventLoop& loop_;
  base::TimeNs ahead_ns_;
};

}  // namespace simm::sim
