// AgentRunner: one thread's loop over its agents. A turn calls do_work() of each; when a turn found
// nothing the idle strategy decides: spin (never sleeps), adaptive (spins for a budget, then
// sleeps) or event (sleeps at once). The budget of `adaptive` learns: it grows while spinning is
// rewarded and shrinks while it is not. Its second half yields the CPU, so two spinning ends on one
// CPU do not fight. Sleeping is announced (Agent::prepare_sleep, Waiter).
//
// Duty cycle: "runner.<name>.{turns,work,sleeps,turn_ns_max,turn_over_10ms}".
// Thread: run() is the thread; request_stop() from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "daemon/base/counter_group.h"
#include "daemon/base/waiter.h"

namespace simm::base {

enum class WaitMode : std::uint8_t { spin, adaptive, event };
inline constexpr std::string_view kWaitModeNames = "spin|adaptive|event";

struct IdleOptions {
  WaitMode mode = WaitMode::adaptive;
  TimeNs spin_ns = 50'000;  // upper bound of the spin budget of `adaptive`
};

struct RunnerCounters : CounterGroup {
  static constexpr std::string_view kTurnsMetric = "simm_thread_turns_total";

  // `name`: of the thread, "data0".
  RunnerCounters(CounterSet& set, std::string_view name)
      : CounterGroup(set, "runner." + std::string(name), "thread") {}

  Counter turns = counter("turns", {kTurnsMetric, "Turns of a data thread's loop."});
  Counter work = counter("work", {"simm_thread_work_total", "Pieces of work done in those turns."});
  Counter sleeps =
      counter("sleeps", {"simm_thread_sleeps_total", "Times that a data thread went to sleep."});
  Counter turn_ns_max =
      counter("turn_ns_max", {"simm_thread_turn_max_seconds", "The longest turn since the start."});
  Counter turn_over_10ms =
      counter("turn_over_10ms", {"simm_thread_long_turns_total", "Turns of more than 10 ms."});
};

class AgentRunner {
public:
  // All references outlive the runner; agents are added before run().
  AgentRunner(std::string_view name, const Clock& clock, Waiter& waiter, IdleOptions idle,
              CounterSet& counters);

  void add(Agent& agent) { agents_.push_back(&agent); }
  [[nodiscard]] std::size_t agents() const noexcept { return agents_.size(); }

  // Runs turns until request_stop(), then Agent::end() of each. Work that is there when the stop
  // arrives may stay undone.
  void run() noexcept;
  // One turn without idling: how tests and the simulation drive agents.
  int turn() noexcept;
  void request_stop() noexcept;

  // Turns so far. Thread: any; a sleeping runner has to be woken to count on.
  [[nodiscard]] std::uint64_t turns() const noexcept { return counters_.turns.value(); }

private:
  TimeNs idle(TimeNs now_ns) noexcept;
  // `began_ns`: the second look is a turn, too, from then on.
  void sleep(TimeNs began_ns) noexcept;
  void count_turn(TimeNs took_ns) noexcept;
  void rewarded(TimeNs now_ns) noexcept;

  const Clock& clock_;
  Waiter& waiter_;
  const IdleOptions idle_;
  std::vector<Agent*> agents_;
  std::atomic<bool> stopping_{false};
  TimeNs idle_since_ns_ = 0;  // 0: the last turn found work
  TimeNs spin_budget_ns_;

  RunnerCounters counters_;
};

}  // namespace simm::base
