// ThreadWatch: for how long each data thread has not come round. An idle thread has a turn at least
// once a second (daemon/base/agent_runner.h), so one that has none for kStuckNs hangs.
// Owned by the composition root. Thread: control.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/base/agent_runner.h"
#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/control/deadline.h"

namespace simm::control {

class ThreadWatch {
public:
  static constexpr base::TimeNs kLookNs = base::kNsPerSecond;
  static constexpr base::TimeNs kStuckNs = 10 * base::kNsPerSecond;

  struct Seen {
    std::string thread;  // "data0"
    base::Counter turns;
    std::uint64_t last = 0;
    base::TimeNs changed_ns = 0;
  };

  ThreadWatch(boost::asio::io_context& io, const base::Clock& clock,
              const base::CounterSet& counters)
      : clock_(clock), next_(io) {
    (void)counters.each_since(0, [this](std::string_view, const base::Counter& turns,
                                        const base::CounterSet::Meaning& meaning) {
      if (meaning.metric.name != base::RunnerCounters::kTurnsMetric) return;
      std::string thread = meaning.labels.substr(meaning.labels.find('=') + 1);
      threads_.push_back({std::move(thread), turns, turns.value(), clock_.now_ns()});
    });
  }

  // From now on it looks by itself.
  void start() {
    next_.after(kLookNs, [this] {
      look();
      start();
    });
  }

  void look() {
    const base::TimeNs now_ns = clock_.now_ns();
    for (Seen& seen : threads_) {
      const std::uint64_t turns = seen.turns.value();
      if (turns == seen.last) continue;
      seen.last = turns;
      seen.changed_ns = now_ns;
    }
  }

  [[nodiscard]] const std::vector<Seen>& threads() const noexcept { return threads_; }
  [[nodiscard]] base::TimeNs age_ns(const Seen& seen) const {
    return clock_.now_ns() - seen.changed_ns;
  }
  // The name of a thread that hangs; empty: none does.
  [[nodiscard]] std::string stuck() const {
    const auto found = std::find_if(threads_.begin(), threads_.end(),
                                    [this](const Seen& seen) { return age_ns(seen) > kStuckNs; });
    return found == threads_.end() ? std::string() : found->thread;
  }

private:
  const base::Clock& clock_;
  Deadline next_;
  std::vector<Seen> threads_;
};

}  // namespace simm::control
