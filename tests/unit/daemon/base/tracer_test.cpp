#include "daemon/base/tracer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "daemon/base/manual_clock.h"

namespace tracer_test {

using namespace simm::base;

TraceRun::Wish wish(std::uint32_t one_in, std::uint64_t seed, TimeNs until_ns = 1000) {
  return {one_in, seed, until_ns, false};
}

std::vector<std::uint64_t> choices(std::uint32_t one_in, std::uint64_t seed, int count) {
  TraceRun run(wish(one_in, seed));
  Tracer tracer;
  tracer.order(&run);
  tracer.take_orders(ManualClock(1));
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back(tracer.choose());
  CHECK(run.begun == static_cast<std::uint64_t>(count));
  return ids;
}

TEST_CASE("one of so many is chosen, by the seed, and not in a rhythm") {
  constexpr int kCount = 40'000;
  for (const std::uint32_t one_in : {1U, 2U, 8U, 64U}) {
    CAPTURE(one_in);
    const std::vector<std::uint64_t> ids = choices(one_in, 7, kCount);
    std::set<std::uint64_t> chosen;
    int even = 0;
    for (int i = 0; i < kCount; ++i) {
      if (ids[static_cast<std::size_t>(i)] == 0) continue;
      chosen.insert(ids[static_cast<std::size_t>(i)]);
      if (i % 2 == 0) ++even;
    }
    const double expected = static_cast<double>(kCount) / one_in;
    const double deviation = std::sqrt(expected);
    CHECK(std::abs(static_cast<double>(chosen.size()) - expected) <= 4 * deviation);
    // A client that alternates between two things has both of them looked at.
    CHECK(std::abs(even - expected / 2) <= 4 * deviation);
    CHECK(choices(one_in, 7, kCount) == ids);
    if (one_in > 1) CHECK(choices(one_in, 8, kCount) != ids);
  }
}

TEST_CASE("it is off before an order, after the time is over, and when it is told to") {
  TraceRun run(wish(1, 1, 500));
  Tracer tracer;
  tracer.take_orders(ManualClock(1));
  CHECK_FALSE(tracer.on());
  tracer.order(&run);
  CHECK_FALSE(tracer.on());  // until its turn
  CHECK_FALSE(tracer.is_using(&run));
  tracer.take_orders(ManualClock(499));
  CHECK(tracer.on());
  CHECK(tracer.is_using(&run));
  tracer.take_orders(ManualClock(500));
  CHECK_FALSE(tracer.on());
  // What was chosen in time may still be told.
  TraceRecord record;
  record.id = 5;
  tracer.push(record);
  TraceRecord told;
  REQUIRE(run.records.try_pop(told));
  CHECK(told.id == 5);
  tracer.order(nullptr);
  tracer.take_orders(ManualClock(501));
  CHECK(tracer.is_using(nullptr));
  tracer.push(record);
  CHECK_FALSE(run.records.try_pop(told));
}

TEST_CASE("what does not fit is dropped whole and counted") {
  TraceRun run(wish(1, 1));
  Tracer tracer;
  tracer.order(&run);
  tracer.take_orders(ManualClock(1));
  TraceRecord record;
  for (std::uint64_t i = 1; i <= TraceRun::kTraceRecordsAhead + 10; ++i) {
    record.id = i;
    tracer.push(record);
  }
  CHECK(run.dropped == 10);
  TraceRecord told;
  for (std::uint64_t i = 1; i <= TraceRun::kTraceRecordsAhead; ++i) {
    REQUIRE(run.records.try_pop(told));
    CHECK(told.id == i);
  }
  CHECK_FALSE(run.records.try_pop(told));
}

TEST_CASE("requests keep their asker's id; others are sampled only where that is wanted") {
  for (const bool samples : {false, true}) {
    TraceRun run({1, 3, 1000, samples});
    Tracer tracer;
    tracer.order(&run);
    tracer.take_orders(ManualClock(1));
    CHECK(tracer.choose_request(77) == 77);
    CHECK((tracer.choose_request(0) != 0) == samples);
    CHECK(run.sampled == (samples ? 2 : 0));
  }
}

TEST_CASE("runs come and go while an agent records") {
  Tracer tracer;
  std::atomic<bool> over{false};
  std::thread agent([&] {
    const ManualClock clock(1);
    while (!over.load()) {
      tracer.take_orders(clock);
      for (int i = 0; i < 20 && tracer.on(); ++i) {
        TraceRecord record;
        record.id = tracer.choose();
        record.tenant = ~record.id;
        if (record.id != 0) tracer.push(record);
      }
      std::this_thread::yield();
    }
  });
  std::uint64_t told = 0;
  for (int round = 0; round < 50; ++round) {
    auto run = std::make_unique<TraceRun>(wish(2, static_cast<std::uint64_t>(round), ~TimeNs{0}));
    tracer.order(run.get());
    TraceRecord record;
    const auto take_all = [&] {
      while (run->records.try_pop(record)) {
        CHECK(record.tenant == ~record.id);
        ++told;
      }
    };
    const std::uint64_t enough = told + 100;
    while (told < enough) {
      take_all();
      std::this_thread::yield();
    }
    tracer.order(nullptr);
    for (; !tracer.is_using(nullptr); std::this_thread::yield()) take_all();
    take_all();
    CHECK(run->sampled >= run->dropped);
  }
  over = true;
  agent.join();
  CHECK(told >= 5000);
}

}  // namespace tracer_test
