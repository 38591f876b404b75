#include "tests/sim/event_loop.h"

#include <algorithm>
#include <utility>

#include "daemon/base/random.h"

namespace simm::sim {

void EventLoop::at(base::TimeNs when_ns, Action action) {
  queue_.push(Event{std::max(when_ns, now_ns_), pushed_++, std::move(action)});
}

void EventLoop::run_until(base::TimeNs until_ns) {
  while (!stopped_ && !queue_.empty() && queue_.top().when_ns <= until_ns) {
    // The queue only hands out const references; the event leaves it in the next line.
    Event event = std::move(const_cast<Event&>(queue_.top()));
    queue_.pop();
    now_ns_ = event.when_ns;
    ++executed_;
    note(event.when_ns ^ event.order);
    event.action();
  }
  if (!stopped_) now_ns_ = std::max(now_ns_, until_ns);
}

void EventLoop::note(std::uint64_t value) noexcept {
  std::uint64_t state = fingerprint_ ^ value;
  fingerprint_ = base::splitmix64(state);
}

}  // namespace simm::sim
