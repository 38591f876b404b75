#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "daemon/base/agent_group.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/manual_clock.h"
#include "daemon/base/real_clock.h"
#include "tests/support/eventually.h"

namespace runner_test {

using namespace simm::base;

// Counts what it receives and says how often it was asked to sleep.
class Receiver : public Agent {
public:
  int do_work() noexcept override {
    int done = 0;
    std::uint64_t value = 0;
    while (done < 16 && mailbox.try_pop(value)) {
      received.fetch_add(1);
      ++done;
    }
    return done;
  }
  bool prepare_sleep() noexcept override {
    ++prepared;
    return !refuse_sleep.exchange(false);
  }
  void cancel_sleep() noexcept override { ++cancelled; }
  void end() noexcept override {
    ++ended;
    ended_on = std::this_thread::get_id();
  }
  const char* name() const noexcept override { return "receiver"; }

  SpscMailbox<std::uint64_t> mailbox{1024};
  std::atomic<std::uint64_t> received{0};
  std::atomic<int> prepared{0}, cancelled{0};
  std::atomic<bool> refuse_sleep{false};
  // Read after stop().
  int ended = 0;
  std::thread::id ended_on;
};

// Waits are never timed: a lost wake-up hangs until kSleepNsMax, and 20,000 of those do not fit in
// any test time.
void ping(WaitMode mode, Threading threading, int messages) {
  RealClock clock;
  CounterSet counters;
  auto group = AgentGroup::create({threading, {}, {mode, 20'000}}, 2, clock, counters);
  REQUIRE(group.has_value());
  Receiver a, b;
  (*group)->add(0, a);
  (*group)->add(1, b);
  CHECK((*group)->threads() == (threading == Threading::shared ? 1 : 2));
  REQUIRE((*group)->start().has_value());
  for (int i = 1; i <= messages; ++i) {
    Receiver& to = i % 2 == 0 ? a : b;
    CHECK(to.mailbox.try_push(1));
    (*group)->waiter(i % 2 == 0 ? 0 : 1).wake();
    while (a.received.load() + b.received.load() < static_cast<std::uint64_t>(i)) {
      std::this_thread::yield();
    }
  }
  (*group)->stop();
  CHECK(a.ended == 1);
  CHECK(b.ended == 1);
  CHECK(a.ended_on != std::this_thread::get_id());
  CHECK((a.ended_on == b.ended_on) == (threading == Threading::shared));
  CHECK(a.prepared.load() == a.cancelled.load());
  if (mode == WaitMode::event) CHECK(counters.value("runner.data0.sleeps") > 0);
  if (mode == WaitMode::spin) CHECK(counters.value("runner.data0.sleeps") == 0);
}

TEST_CASE("no wake-up is lost between announcing sleep and sleeping") {
  ping(WaitMode::event, Threading::shared, 20'000);
  ping(WaitMode::event, Threading::dedicated, 5'000);
}

TEST_CASE("all wait modes deliver") {
  ping(WaitMode::adaptive, Threading::shared, 5'000);
  ping(WaitMode::spin, Threading::shared, 200);
}

TEST_CASE("an agent that refuses to sleep is asked again, and every announcement is taken back") {
  RealClock clock;
  CounterSet counters;
  auto group =
      AgentGroup::create({Threading::shared, {}, {WaitMode::event, 0}}, 1, clock, counters);
  REQUIRE(group.has_value());
  Receiver agent;
  agent.refuse_sleep = true;
  (*group)->add(0, agent);
  REQUIRE((*group)->start().has_value());
  while (agent.prepared.load() < 2) std::this_thread::yield();
  (*group)->stop();
  CHECK(agent.prepared.load() == agent.cancelled.load());
}

// Finds nothing to do, and takes 20 ms for that.
class Slow : public Agent {
public:
  explicit Slow(ManualClock& clock) : clock_(clock) {}
  int do_work() noexcept override {
    clock_.advance_ns(20 * kNsPerMs);
    if (++turns == 2) runner->request_stop();
    return 0;
  }
  const char* name() const noexcept override { return "slow"; }
  int turns = 0;
  AgentRunner* runner = nullptr;

private:
  ManualClock& clock_;
};

TEST_CASE("a turn that finds nothing counts with its time, and so does the look before sleep") {
  ManualClock clock;
  const RealClock real_clock;
  CounterSet counters;
  EpollWaiter waiter(real_clock);
  REQUIRE(waiter.usable());
  AgentRunner runner("data0", clock, waiter, {WaitMode::event, 0}, counters);
  Slow agent(clock);
  agent.runner = &runner;
  runner.add(agent);
  runner.run();
  CHECK(agent.turns == 2);
  CHECK(counters.value("runner.data0.turns") == 2);
  CHECK(counters.value("runner.data0.turn_over_10ms") == 2);
  CHECK(counters.value("runner.data0.turn_ns_max") == 20 * kNsPerMs);
}

// Hangs in its work while it is told to.
class Stuck : public Agent {
public:
  int do_work() noexcept override {
    while (hang.load()) std::this_thread::yield();
    return 0;
  }
  const char* name() const noexcept override { return "stuck"; }
  std::atomic<bool> hang{false};
};

TEST_CASE("a group knows whether all of its threads come round, also those that sleep") {
  RealClock clock;
  CounterSet counters;
  auto group =
      AgentGroup::create({Threading::dedicated, {}, {WaitMode::event, 0}}, 2, clock, counters);
  REQUIRE(group.has_value());
  Stuck quick, slow;
  (*group)->add(0, quick);
  (*group)->add(1, slow);
  REQUIRE((*group)->start().has_value());
  const auto come_round = [&] {
    while (!(*group)->have_all_turned()) std::this_thread::yield();
  };
  for (int i = 0; i < 100; ++i) come_round();

  slow.hang = true;
  // A turn may have been under way, and one more begins with the wake-up.
  REQUIRE(simm::test_support::eventually([&] { return !(*group)->have_all_turned(); }));
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE((*group)->have_all_turned());
    ::usleep(100);
  }
  slow.hang = false;
  come_round();
  (*group)->stop();
}

TEST_CASE("a CPU that does not exist is an error that names the key") {
  RealClock clock;
  CounterSet counters;
  auto group = AgentGroup::create({Threading::dedicated, {1023}, {}}, 1, clock, counters);
  REQUIRE(group.has_value());
  Receiver agent;
  (*group)->add(0, agent);
  const auto started = (*group)->start();
  REQUIRE_FALSE(started.has_value());
  CHECK(started.error().context.find("threading.cpus") != std::string::npos);
}

}  // namespace runner_test
