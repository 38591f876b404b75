#include "daemon/metrics/event_watch.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include "daemon/base/agent_runner.h"
#include "daemon/base/limits.h"
#include "daemon/base/manual_clock.h"
#include "ipc/fd.h"

namespace event_watch_test {

using namespace simm;
using control::EventWatch;

struct World {
  World() { clock.advance_ns(1000 * base::kNsPerSecond); }
  // A look a second for so long.
  void run(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock.advance_ns(base::kNsPerSecond);
      if (turns_go_on) runner.turns.add();
      watch.look();
    }
  }
  std::vector<std::string> take() {
    const base::EventLog::Page page = events.page(since);
    since = page.next;
    std::vector<std::string> told;
    for (const base::Event& event : page.events) {
      told.push_back(std::string(base::row_of(event.kind).name) + " " + event.subject + ": " +
                     event.text);
    }
    return told;
  }

  base::ManualClock clock;
  base::CounterSet counters;
  base::RunnerCounters runner{counters, "data0"};
  base::Counter moved = counters.counter("store.1.moved", {"simm_store_moved_total"});
  bool turns_go_on = true;
  ipc::UniqueFd nowhere{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  base::Log log{clock, base::LogLevel::error, nowhere.get(), false};
  base::EventLog events{clock, log, counters};
  boost::asio::io_context io;
  EventWatch watch{io, clock, counters, events};
  std::uint64_t since = 0;
};

using Told = std::vector<std::string>;

TEST_CASE("what data agents count becomes one event, until it was quiet for a minute") {
  World world;
  world.run(2);
  CHECK(world.take().empty());
  world.moved.add(3);
  world.run(1);
  CHECK(world.take() == Told{"compaction store.1.moved: times=3 in_all=3"});
  for (int i = 0; i < 90; ++i) {
    world.moved.add(1);
    world.run(1);
  }
  CHECK(world.take().empty());
  world.run(61);
  world.moved.add(2);
  world.run(1);
  CHECK(world.take() == Told{"compaction store.1.moved: times=2 in_all=95"});
}

TEST_CASE("counters that come later are watched too, by their names") {
  World world;
  base::Counter lost = world.counters.counter("store.0.lost_in_lease.lease_budget",
                                              {"simm_store_lost_in_lease_total"});
  base::LimitCounters limits(world.counters);
  world.run(1);
  lost.add(1);
  limits.reached(base::Limit::descriptors);
  world.run(1);
  const Told told = world.take();
  CHECK(told == Told{"lost_in_lease store.0.lost_in_lease.lease_budget: times=1 in_all=1",
                     "limit_reached limit.descriptors.reached: times=1 in_all=1"});
}

TEST_CASE("a data thread that does not come round is told once, and when it does again") {
  World world;
  world.run(5);
  world.turns_go_on = false;
  world.run(20);
  CHECK(world.take() == Told{"thread_slow data0: no_turn_for_ms=3000"});
  world.turns_go_on = true;
  world.run(2);
  CHECK(world.take() == Told{"thread_back data0: "});
}

}  // namespace event_watch_test
