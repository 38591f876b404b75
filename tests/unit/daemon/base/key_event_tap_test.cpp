#include "daemon/base/key_event_tap.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace key_event_tap_test {

using namespace simm::base;

KeyEvent event_of(std::uint64_t key, KeyEventKind kind = KeyEventKind::stored) {
  return {0, {key, ~key}, {1}, {2}, 4096, kind};
}

// What a listener saw: keys in their order, and where how many are missing.
struct Heard {
  std::vector<std::uint64_t> keys;
  std::vector<std::uint64_t> gaps;
  std::uint64_t numbers = 0;  // of events and gaps together

  void listen(KeyEventTap& tap) {
    tap.drain(
        [this](const KeyEvent& event) {
          ++numbers;
          CHECK(event.hash.high == ~event.hash.low);
          keys.push_back(event.hash.low);
        },
        [this](std::uint64_t lost) {
          CHECK(lost > 0);
          numbers += lost;
          gaps.push_back(lost);
        });
  }
};

TEST_CASE("nobody listens: nothing is told, before and after somebody does") {
  KeyEventTap tap;
  CHECK_FALSE(tap.on());
  tap.tell(event_of(1));
  tap.lose();
  Heard heard;
  heard.listen(tap);
  tap.open();
  CHECK(tap.on());
  tap.tell(event_of(2));
  heard.listen(tap);
  tap.close();
  CHECK_FALSE(tap.on());
  tap.tell(event_of(3));
  heard.listen(tap);
  CHECK(heard.keys == std::vector<std::uint64_t>{2});
  CHECK(heard.gaps.empty());
}

TEST_CASE("a new listener hears nothing of what an earlier one left") {
  KeyEventTap tap;
  tap.open();
  tap.tell(event_of(1));
  tap.lose();
  tap.close();
  tap.open();
  tap.tell(event_of(2));
  Heard heard;
  heard.listen(tap);
  CHECK(heard.keys == std::vector<std::uint64_t>{2});
  CHECK(heard.gaps.empty());
}

TEST_CASE("what does not fit is a gap of that length, in its place, and what follows is told") {
  KeyEventTap tap;
  tap.open();
  const std::uint64_t fits = KeyEventTap::kKeyEventsAhead;
  for (std::uint64_t key = 1; key <= fits + 10; ++key) tap.tell(event_of(key));
  Heard heard;
  heard.listen(tap);
  tap.tell(event_of(7));
  heard.listen(tap);
  CHECK(heard.numbers == fits + 11);
  CHECK(heard.gaps == std::vector<std::uint64_t>{10});
  REQUIRE(heard.keys.size() == fits + 1);
  CHECK(heard.keys[fits - 1] == fits);
  CHECK(heard.keys.back() == 7);
}

TEST_CASE("a gap at the end is told without another event") {
  KeyEventTap tap;
  tap.open();
  tap.tell(event_of(1));
  tap.lose();
  tap.lose();
  Heard heard;
  heard.listen(tap);
  CHECK(heard.keys == std::vector<std::uint64_t>{1});
  CHECK(heard.gaps == std::vector<std::uint64_t>{2});
  heard.listen(tap);
  CHECK(heard.gaps.size() == 1);
}

TEST_CASE("side by side, every event is heard in its order or is part of a gap") {
  constexpr std::uint64_t kTold = 400'000;
  KeyEventTap tap;
  tap.open();
  std::atomic<bool> done{false};
  std::thread agent([&] {
    for (std::uint64_t key = 1; key <= kTold; ++key) tap.tell(event_of(key));
    done.store(true, std::memory_order_release);
  });
  Heard heard;
  bool last = false;
  while (!last) {
    last = done.load(std::memory_order_acquire);
    heard.listen(tap);
  }
  while (heard.numbers < kTold) heard.listen(tap);  // a drain takes a bounded number
  agent.join();
  CHECK(heard.numbers == kTold);
  bool grows = true;
  for (std::size_t i = 1; i < heard.keys.size(); ++i) {
    grows = grows && heard.keys[i] > heard.keys[i - 1];
  }
  CHECK(grows);
}

}  // namespace key_event_tap_test
