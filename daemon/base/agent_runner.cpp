#include "daemon/base/agent_runner.h"

#include <sched.h>

#include <algorithm>
#include <string>

namespace simm::base {
namespace {

// Even a fully idle loop looks around once a second: deadlines of agents are hints. That also keeps
// the duty-cycle counters alive for a reader that wonders whether the thread hangs.
constexpr TimeNs kSleepNsMax = kNsPerSecond;
constexpr TimeNs kLongTurnNs = 10 * kNsPerMs;
constexpr TimeNs kSpinNsMin = 2'000;

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

AgentRunner::AgentRunner(std::string_view name, const Clock& clock, Waiter& waiter,
                         IdleOptions idle, CounterSet& counters)
    : clock_(clock),
      waiter_(waiter),
      idle_(idle),
      spin_budget_ns_(idle.spin_ns),
      counters_(counters.begin_writer(), name) {}

int AgentRunner::turn() noexcept {
  int work = 0;
  for (Agent* agent : agents_) work += agent->do_work();
  return work;
}

void AgentRunner::run() noexcept {
  TimeNs before = clock_.now_ns();
  while (!stopping_.load(std::memory_order_acquire)) {
    const int work = turn();
    const TimeNs after = clock_.now_ns();
    // One that found nothing can have taken long all the same.
    count_turn(after - before);
    if (work == 0) {
      before = idle(after);
      continue;
    }
    counters_.work.add(static_cast<std::uint64_t>(work));
    rewarded(after);
    before = after;
  }
  for (Agent* agent : agents_) agent->end();
}

// Whoever reads the number of turns knows how long they were.
void AgentRunner::count_turn(TimeNs took_ns) noexcept {
  counters_.turn_ns_max.raise(took_ns);
  if (took_ns > kLongTurnNs) counters_.turn_over_10ms.add();
  counters_.turns.add();
}

// Work came: if spinning caught it late in its budget, a longer budget catches the next one too.
void AgentRunner::rewarded(TimeNs now_ns) noexcept {
  if (idle_since_ns_ != 0 && now_ns - idle_since_ns_ > spin_budget_ns_ / 4) {
    spin_budget_ns_ = std::min(spin_budget_ns_ * 2, idle_.spin_ns);
  }
  idle_since_ns_ = 0;
}

// Returns the time of its end: a pause is too short to look at the clock for it.
TimeNs AgentRunner::idle(TimeNs now_ns) noexcept {
  if (idle_.mode == WaitMode::spin) {
    cpu_relax();
    return now_ns;
  }
  if (idle_since_ns_ == 0) idle_since_ns_ = now_ns;
  const TimeNs spun_ns = now_ns - idle_since_ns_;
  if (idle_.mode == WaitMode::adaptive && spun_ns < spin_budget_ns_) {
    if (spun_ns < spin_budget_ns_ / 2) {
      cpu_relax();
      return now_ns;
    }
    ::sched_yield();
  } else {
    sleep(now_ns);
  }
  return clock_.now_ns();
}

void AgentRunner::sleep(TimeNs began_ns) noexcept {
  waiter_.announce();
  bool may_sleep = true;
  for (Agent* agent : agents_) may_sleep = agent->prepare_sleep() && may_sleep;
  // The second look, after everybody who could wake us has been told to.
  const int late_work = turn();
  if (late_work > 0) counters_.work.add(static_cast<std::uint64_t>(late_work));
  const TimeNs now_ns = clock_.now_ns();
  count_turn(now_ns - began_ns);
  if (may_sleep && late_work == 0 && !stopping_.load(std::memory_order_acquire)) {
    TimeNs deadline_ns = now_ns + kSleepNsMax;
    for (const Agent* agent : agents_) {
      deadline_ns = std::min(deadline_ns, agent->next_deadline_ns());
    }
    counters_.sleeps.add();
    waiter_.wait_until(deadline_ns);
    spin_budget_ns_ = std::max(spin_budget_ns_ / 2, std::min(kSpinNsMin, idle_.spin_ns));
  }
  for (Agent* agent : agents_) agent->cancel_sleep();
  waiter_.retract();
  idle_since_ns_ = 0;
}

void AgentRunner::request_stop() noexcept {
  stopping_.store(true, std::memory_order_release);
  waiter_.wake();
}

}  // namespace simm::base
