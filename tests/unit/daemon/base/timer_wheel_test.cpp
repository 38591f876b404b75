#include "daemon/base/timer_wheel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "daemon/base/random.h"

namespace timer_wheel_test {

using namespace simm::base;

struct Job : Timer {
  bool fired = false;
};

TEST_CASE("a timer fires at its deadline, not before, and only once") {
  TimerWheel wheel(kNsPerSecond);
  Job job;
  wheel.arm(job, kNsPerSecond + 5 * kNsPerMs);
  const auto fire = [](Timer& timer) { static_cast<Job&>(timer).fired = true; };
  CHECK(wheel.advance(kNsPerSecond + 5 * kNsPerMs - 1, fire) == 0);
  CHECK_FALSE(job.fired);
  CHECK(wheel.advance(kNsPerSecond + 5 * kNsPerMs + TimerWheel::kTickNs, fire) == 1);
  CHECK(job.fired);
  CHECK_FALSE(job.armed());
  CHECK(wheel.next_deadline_ns() == kNoDeadline);
}

TEST_CASE("a cancelled timer does not fire and re-arming moves it") {
  TimerWheel wheel(kNsPerSecond);
  Job cancelled, moved;
  wheel.arm(cancelled, kNsPerSecond + kNsPerMs);
  wheel.arm(moved, kNsPerSecond + kNsPerMs);
  wheel.arm(moved, 10 * kNsPerSecond);
  wheel.cancel(cancelled);
  wheel.cancel(cancelled);
  CHECK(wheel.armed() == 1);
  CHECK(wheel.advance(9 * kNsPerSecond, [](Timer&) {}) == 0);
  CHECK(wheel.advance(11 * kNsPerSecond, [](Timer&) {}) == 1);
}

TEST_CASE("a callback may re-arm its own timer and cancel its neighbour of the same slot") {
  TimerWheel wheel(kNsPerSecond);
  Job first, second;
  wheel.arm(first, kNsPerSecond + kNsPerMs);
  wheel.arm(second, kNsPerSecond + kNsPerMs);
  int calls = 0;
  const auto on_expired = [&](Timer& timer) {
    ++calls;
    wheel.cancel(&timer == &first ? second : first);
    if (calls < 3) wheel.arm(timer, kNsPerSecond + 50 * kNsPerMs * static_cast<TimeNs>(calls));
  };
  CHECK(wheel.advance(kNsPerSecond + 500 * kNsPerMs, on_expired) == 3);
  CHECK(wheel.armed() == 0);
}

TEST_CASE("deadlines beyond the reach of the wheel still fire at their time") {
  TimerWheel wheel(kNsPerSecond);
  Job far;
  const TimeNs deadline = kNsPerSecond * 3600 * 24 * 400;
  wheel.arm(far, deadline);
  CHECK(wheel.advance(deadline - kNsPerSecond, [](Timer&) {}) == 0);
  CHECK(wheel.advance(deadline + kNsPerSecond, [](Timer&) {}) == 1);
}

// Against the rule itself: nothing early, nothing overdue, over steps from nanoseconds to hours.
void run_model(std::uint64_t seed) {
  SeededRandom random(seed);
  TimeNs now = kNsPerSecond + random.below(kNsPerSecond);
  TimerWheel wheel(now);
  std::vector<std::unique_ptr<Job>> jobs;
  for (int i = 0; i < 64; ++i) jobs.push_back(std::make_unique<Job>());
  std::uint64_t wrong = 0;
  for (int step = 0; step < 3000; ++step) {
    Job& job = *jobs[random.below(jobs.size())];
    const std::uint64_t action = random.below(4);
    if (action < 2) {
      wheel.arm(job, now + (random.next() >> (20 + random.below(40))));
    } else if (action == 2) {
      wheel.cancel(job);
    } else {
      const TimeNs next = wheel.next_deadline_ns();
      const bool to_next = random.one_in(2) && next != kNoDeadline;
      now = to_next ? std::max(now, next) : now + (random.next() >> (22 + random.below(40)));
      wheel.advance(now, [&](Timer& timer) { wrong += timer.deadline_ns() > now; });
      for (const auto& other : jobs) {
        if (!other->armed()) continue;
        wrong += other->deadline_ns() + 2 * TimerWheel::kTickNs <= now;
        wrong += wheel.next_deadline_ns() > other->deadline_ns() + 2 * TimerWheel::kTickNs;
      }
    }
  }
  for (const auto& job : jobs) wheel.cancel(*job);
  CHECK(wrong == 0);
  CHECK(wheel.armed() == 0);
}

TEST_CASE("random arming, cancelling and jumps of time agree with the rule of deadlines") {
  const char* given = std::getenv("SIMM_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t last = given != nullptr ? first : 40;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    INFO("repeat: SIMM_SEED=" << seed << " unit_base -tc='random arming*'");
    run_model(seed);
  }
}

}  // namespace timer_wheel_test
