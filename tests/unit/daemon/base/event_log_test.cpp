#include "daemon/base/event_log.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/error_log.h"
#include "daemon/base/manual_clock.h"
#include "tests/support/paths.h"

namespace event_log_test {

using namespace simm::base;

struct World {
  World() { clock.advance_ns(1000 * kNsPerSecond); }

  // Numbered by their texts, one of each second, so that none is left out.
  void record(std::size_t count, EventKind kind = EventKind::map) {
    for (std::size_t i = 0; i < count; ++i) {
      clock.advance_ns(kNsPerSecond);
      events.record(kind, "subject", std::to_string(++made));
    }
  }

  ManualClock clock;
  CounterSet counters;
  int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  Log log{clock, LogLevel::info, nowhere, false};
  EventLog events{clock, log, counters};
  std::size_t made = 0;
};

TEST_CASE("a reader gets all events in order, page by page, and each one once") {
  World world;
  world.record(600);
  std::uint64_t since = 0;
  std::size_t seen = 0;
  for (int pages = 0; pages < 3; ++pages) {
    const EventLog::Page page = world.events.page(since);
    CHECK(page.missed == 0);
    CHECK(page.is_last == (pages == 2));
    for (const Event& event : page.events) {
      CHECK(event.sequence == ++seen);
      CHECK(event.text == std::to_string(seen));
    }
    since = page.next;
  }
  CHECK(seen == 600);
  CHECK(world.events.page(since).events.empty());
  world.record(1);
  REQUIRE(world.events.page(since).events.size() == 1);
  CHECK(world.events.page(since).events[0].sequence == 601);
}

TEST_CASE("what was overwritten before its reader came is a gap that is told") {
  World world;
  world.record(kEventsMax + 10);
  const EventLog::Page page = world.events.page(3);
  CHECK(page.missed == 7);
  REQUIRE(page.events.size() == kEventsPageMax);
  CHECK(page.events[0].text == "11");
  CHECK(world.events.page(10).missed == 0);
}

TEST_CASE("a number that was never reached is of another daemon, and everything is new") {
  World world;
  world.record(3);
  CHECK(world.events.page(77).events.size() == 3);
  CHECK(World().events.life() != world.events.life());
}

TEST_CASE("a reader may ask for one kind") {
  World world;
  world.record(2);
  world.record(1, EventKind::stopping);
  world.record(2);
  const EventLog::Page page = world.events.page(0, EventKind::stopping);
  REQUIRE(page.events.size() == 1);
  CHECK(page.events[0].sequence == 3);
  CHECK(page.next == 5);
}

TEST_CASE(
    "a kind that floods leaves room for the others, and the next one says how many it left out") {
  World world;
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    world.events.record(EventKind::session_attached, "flood", "");
  }
  world.events.record(EventKind::map, "5", "");
  CHECK(world.events.newest() == kEventBurst + 1);
  CHECK(world.counters.value("events.left_out") == 10'000 - kEventBurst);
  world.clock.advance_ns(kNsPerSecond);
  world.events.record(EventKind::session_attached, "flood", "");
  CHECK(world.events.page(kEventBurst + 1).events.at(0).left_out == 10'000 - kEventBurst);
  CHECK(world.counters.value("events.recorded") == kEventBurst + 2);
}

TEST_CASE("words of others are escaped and cut") {
  World world;
  const std::string evil = "a\n\x1b[31m\"\\\xff";
  world.events.record(EventKind::map, evil, std::string(1000, '\n'));
  world.events.tell(EventKind::session_ended, {{"session", 7}, {"client", evil + " x=y"}});
  world.events.tell(EventKind::manager_lost, {{"manager", evil}}, "alone");
  const auto events = world.events.page(0).events;
  REQUIRE(events.size() == 3);
  CHECK(events[0].subject == "a\\x0a\\x1b[31m\\x22\\x5c\\xff");
  CHECK(events[0].text.size() == 168);
  CHECK(events[1].subject == "7");
  CHECK(events[1].text == "client=\"a\\x0a\\x1b[31m\\x22\\x5c\\xff x=y\"");
  CHECK(events[2].subject == events[0].subject);
  CHECK(events[2].text == "alone");
}

TEST_CASE("an error is an event when it is new") {
  World world;
  ErrorLog errors(world.clock, &world.events);
  for (int i = 0; i < 3; ++i) errors.record("control.attach", simm::Status::timeout, "too late");
  const auto events = world.events.page(0).events;
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == EventKind::error);
  CHECK((events[0].subject + ": " + events[0].text) == "control.attach: too late");
}

TEST_CASE("readers wait for an event that is being written, and for no event that was left out") {
  EventRing ring;
  PackedEvent event{};
  event.subject_bytes = 1;
  const std::uint64_t first = ring.draw();
  const std::uint64_t second = ring.draw();
  REQUIRE(ring.put(second, event));
  CHECK(ring.take(first, event) == EventRing::Found::not_yet);
  CHECK(ring.take(second, event) == EventRing::Found::event);
  // A whole round later: the writer of the first one comes too late.
  for (std::uint32_t i = 2; i < kEventsMax; ++i) REQUIRE(ring.put(ring.draw(), event));
  const std::uint64_t after = ring.draw();
  REQUIRE(after == first + kEventsMax);
  REQUIRE(ring.put(after, event));
  CHECK_FALSE(ring.put(first, event));
  CHECK(ring.take(first, event) == EventRing::Found::gone);
  CHECK(ring.take(after, event) == EventRing::Found::event);
  CHECK_FALSE(ring.put(after, event));
}

// Every word of an event is its number: a reader that sees two numbers saw a torn event.
TEST_CASE("events of several threads are whole and in order for readers who run beside them") {
  EventRing ring;
  constexpr std::uint64_t kEach = 20'000;
  constexpr std::size_t kWriters = 3;
  std::atomic<std::uint64_t> left_out{0};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> writers;
  for (std::size_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        PackedEvent event{};
        const std::uint64_t sequence = ring.draw();
        event.wall_ns = sequence;
        event.left_out = static_cast<std::uint32_t>(sequence);
        event.text.fill(static_cast<char>(sequence));
        if (!ring.put(sequence, event)) left_out.fetch_add(1);
      }
    });
  }
  std::uint64_t torn = 0;
  std::uint64_t seen = 0;
  std::uint64_t gone = 0;
  std::thread reader([&] {
    for (std::uint64_t next = 1; next <= kEach * kWriters;) {
      PackedEvent event{};
      const bool was_over = is_over.load();
      const EventRing::Found found = ring.take(next, event);
      if (found == EventRing::Found::not_yet) {
        if (was_over) break;
        std::this_thread::yield();
        continue;
      }
      if (found == EventRing::Found::gone) {
        ++gone;
      } else {
        ++seen;
        const bool is_whole = event.wall_ns == next &&
                              event.left_out == static_cast<std::uint32_t>(next) &&
                              event.text.front() == static_cast<char>(next) &&
                              event.text.back() == static_cast<char>(next);
        if (!is_whole) ++torn;
      }
      ++next;
    }
  });
  for (std::thread& writer : writers) writer.join();
  is_over.store(true);
  reader.join();
  CHECK(torn == 0);
  CHECK(seen + gone == kEach * kWriters);
  CHECK(gone >= left_out.load());
}

// "| `name` | severity | help |" in OBSERVABILITY.md.
TEST_CASE("the document lists the kinds of events, with the words of the table") {
  std::ifstream file(simm::test_support::source("daemon/OBSERVABILITY.md"));
  std::stringstream text;
  text << file.rdbuf();
  std::string expected = "| kind | severity | when |\n|---|---|---|\n";
  for (const EventKindRow& row : kEventKinds) {
    expected += "| `" + std::string(row.name) + "` | " + std::string(log_level_name(row.severity)) +
                " | " + std::string(row.help) + " |\n";
  }
  INFO("the table is: ", expected);
  CHECK(text.str().find(expected + "\n") != std::string::npos);
}

}  // namespace event_log_test
