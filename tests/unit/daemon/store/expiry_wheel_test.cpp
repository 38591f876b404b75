#include "daemon/store/eviction/expiry_wheel.h"

#include <doctest/doctest.h>

#include <vector>

namespace simm::store::testing {

namespace {

struct Sleeper {
  WheelLink wheel;
  base::TimeNs at_ns;
};
using Wheel = ExpiryWheel<Sleeper, &Sleeper::wheel>;

struct WheelFixture {
  WheelFixture() : memory(17), table(memory.data(), 16) {}

  std::uint32_t add(base::TimeNs at_ns) {
    const std::uint32_t number = table.allocate();
    table[number].at_ns = at_ns;
    wheel.schedule(table, number, at_ns);
    return number;
  }
  // As the store does: too early is scheduled again.
  std::vector<std::uint32_t> due(base::TimeNs now_ns, int budget = 100) {
    std::vector<std::uint32_t> found;
    wheel.advance(table, now_ns, budget, [&](std::uint32_t number) {
      if (table[number].at_ns > now_ns) {
        wheel.schedule(table, number, table[number].at_ns);
      } else {
        found.push_back(number);
      }
    });
    return found;
  }

  std::vector<Sleeper> memory;
  Table<Sleeper> table;
  Wheel wheel;
};

constexpr base::TimeNs kStart = 1'000'000 * base::kNsPerSecond;
constexpr base::TimeNs kRotation = Wheel::kBuckets * Wheel::kTickNs;

}  // namespace

TEST_CASE("nothing is due before its time, everything within two ticks after it") {
  WheelFixture f;
  CHECK(f.due(kStart).empty());
  const std::uint32_t soon = f.add(kStart + base::kNsPerSecond);
  const std::uint32_t far = f.add(kStart + 5 * kRotation);
  CHECK(f.due(kStart + base::kNsPerSecond - 1).empty());
  CHECK(f.due(kStart + base::kNsPerSecond + 2 * Wheel::kTickNs) == std::vector{soon});
  for (base::TimeNs at = kStart + kRotation; at < kStart + 5 * kRotation; at += kRotation / 7) {
    CHECK(f.due(at).empty());
  }
  CHECK(f.due(kStart + 5 * kRotation + 2 * Wheel::kTickNs) == std::vector{far});
}

TEST_CASE("a long silence skips nothing") {
  WheelFixture f;
  f.due(kStart);
  std::vector<std::uint32_t> all;
  for (base::TimeNs i = 0; i < 10; ++i) all.push_back(f.add(kStart + i * kRotation / 3));
  CHECK(f.due(kStart + 1000 * kRotation).size() == all.size());
}

TEST_CASE("the budget is kept, and the order within a tick is that of scheduling") {
  WheelFixture f;
  f.due(kStart);
  std::vector<std::uint32_t> all;
  for (int i = 0; i < 5; ++i) all.push_back(f.add(kStart + base::kNsPerSecond));
  const base::TimeNs later = kStart + 2 * base::kNsPerSecond;
  CHECK(f.due(later, 2) == std::vector{all[0], all[1]});
  f.wheel.cancel(f.table, all[4]);  // the last of the bucket under way
  f.wheel.cancel(f.table, all[4]);
  CHECK(f.due(later, 1) == std::vector{all[2]});
  CHECK(f.due(later, 9) == std::vector{all[3]});
  CHECK(f.due(later + 2 * kRotation).empty());
}

TEST_CASE("a silence in the middle of a bucket does not lose the rest of it") {
  WheelFixture f;
  f.due(kStart);
  const std::uint32_t first = f.add(kStart + base::kNsPerSecond);
  const std::uint32_t second = f.add(kStart + base::kNsPerSecond);
  CHECK(f.due(kStart + 2 * base::kNsPerSecond, 1) == std::vector{first});
  CHECK(f.due(kStart + 3 * kRotation) == std::vector{second});
}

}  // namespace simm::store::testing
