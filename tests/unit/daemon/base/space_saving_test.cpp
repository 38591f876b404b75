// SpaceSaving against an exact count. Repeat a stream with SIMM_SEED=<seed> SIMM_ROUNDS=1.
#include "daemon/base/space_saving.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "daemon/base/random.h"
#include "tests/support/number_from.h"

namespace space_saving_test {

using namespace simm::base;
using simm::test_support::number_from;
using simm::test_support::rounds_from;

constexpr double kEntries = SpaceSaving::kHotKeysCounted;

HotKey key_of(std::uint64_t number, std::uint64_t tenant = 1) {
  std::uint64_t state = number ^ (tenant << 40);
  HotKey key;
  key.hash.low = splitmix64(state);
  key.hash.high = splitmix64(state);
  key.tenant = {tenant};
  return key;
}

// The sketch beside an exact count of the same stream.
class Counted {
public:
  void add(const HotKey& key, std::uint32_t weight = 1) {
    sketch.add(key, weight);
    exact_[key.hash] += weight;
    total_ += weight;
  }
  void halve() {
    sketch.halve();
    for (auto& [hash, count] : exact_) count /= 2;
    total_ /= 2;
    slack_ = slack_ / 2 + 1.0 / SpaceSaving::kScale;
  }

  // The bounds of the paper, for every key that there was.
  void check() const {
    std::array<SpaceSaving::Entry, SpaceSaving::kHotKeysCounted> entries;
    const std::uint32_t count = sketch.copy_to(entries);
    CHECK(in_weights(sketch.total()) >= total_ - 2 * slack_);
    CHECK(in_weights(sketch.total()) <= total_ + 2 * slack_);
    const double bound = in_weights(sketch.total()) / kEntries;
    std::map<KeyHash, SpaceSaving::Entry> found;
    for (std::uint32_t i = 0; i < count; ++i) {
      CHECK(found.emplace(entries[i].key.hash, entries[i]).second);
      CHECK(in_weights(entries[i].error) <= bound);
    }
    for (const auto& [hash, times] : exact_) {
      const auto entry = found.find(hash);
      if (entry == found.end()) {
        CHECK(times <= bound + slack_);
        continue;
      }
      CHECK(in_weights(entry->second.count) >= times - slack_);
      CHECK(in_weights(entry->second.count - entry->second.error) <= times + slack_);
    }
  }
  // Of the total, as far as it is certain.
  [[nodiscard]] double certain_share(const HotKey& key) const {
    std::array<SpaceSaving::Entry, SpaceSaving::kHotKeysCounted> entries;
    const std::uint32_t count = sketch.copy_to(entries);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (entries[i].key.hash != key.hash) continue;
      return (entries[i].count - entries[i].error) / double(sketch.total());
    }
    return 0;
  }

  SpaceSaving sketch;

private:
  static double in_weights(std::uint32_t units) { return double(units) / SpaceSaving::kScale; }

  std::map<KeyHash, double> exact_;
  double total_ = 0;
  double slack_ = 0;  // what halving may have rounded away
};

// Draws ranks from 1 to `keys` with the frequency of 1 / rank ^ skew.
class Zipf {
public:
  Zipf(std::size_t keys, double skew) : sums_(keys) {
    double sum = 0;
    for (std::size_t i = 0; i < keys; ++i) {
      sum += 1 / std::pow(double(i + 1), skew);
      sums_[i] = sum;
    }
  }
  std::uint64_t draw(Random& random) const {
    const double at = double(random.next() >> 11) * 0x1.0p-53 * sums_.back();
    return std::uint64_t(std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin()) + 1;
  }

private:
  std::vector<double> sums_;
};

template <typename Stream>
void for_seeds(Stream&& stream) {
  const std::uint64_t first = number_from("SIMM_SEED", 1);
  const std::uint64_t rounds = rounds_from("SIMM_ROUNDS", 5);
  for (std::uint64_t seed = first; seed < first + rounds; ++seed) {
    CAPTURE(seed);
    SeededRandom random(seed);
    stream(random);
  }
}

TEST_CASE("space saving: what was never used has no entry, and one key has all") {
  Counted counted;
  counted.check();
  counted.add(key_of(1), 7);
  counted.add(key_of(1));
  counted.check();
  CHECK(counted.certain_share(key_of(1)) == 1);
  CHECK(counted.certain_share(key_of(2)) == 0);
}

TEST_CASE("space saving: a Zipf stream keeps the bounds, and its hottest key is found") {
  for_seeds([](Random& random) {
    const Zipf zipf(20'000, 0.8 + double(random.below(6)) / 10);
    Counted counted;
    for (int i = 0; i < 40'000; ++i) {
      counted.add(key_of(zipf.draw(random)),
                  random.one_in(4) ? 1 + std::uint32_t(random.below(9)) : 1);
      if (random.one_in(10'000)) counted.halve();
      if (random.one_in(8'000)) counted.check();
    }
    counted.check();
  });
}

TEST_CASE("space saving: streams made against it keep the bounds") {
  for_seeds([](Random& random) {
    Counted counted;
    std::uint64_t next = 1000;
    for (int i = 0; i < 30'000; ++i) {
      // Keys that never come again drive out the least; or just more keys than entries, in turns;
      // or the newest one again and again, which has the largest error.
      switch (random.below(3)) {
        case 0:
          counted.add(key_of(++next));
          break;
        case 1:
          counted.add(key_of(std::uint64_t(i) % (SpaceSaving::kHotKeysCounted + 1)));
          break;
        default:
          counted.add(key_of(next), std::uint32_t(random.below(3)));
      }
      if (random.one_in(5'000)) counted.halve();
      if (random.one_in(6'000)) counted.check();
    }
    counted.check();
  });
}

TEST_CASE("space saving: a tenant that floods it with unique keys hides nobody's hot key") {
  for_seeds([](Random& random) {
    const HotKey victim = key_of(7, 1);
    Counted counted;
    std::uint64_t flood = 0;
    for (int i = 0; i < 50'000; ++i) {
      // One use in sixteen is the victim's; all others name keys that there are once.
      counted.add(random.one_in(16) ? victim : key_of(++flood, 2));
    }
    counted.check();
    // What it really has, less the bound.
    CHECK(counted.certain_share(victim) > 1.0 / 16 - 1 / kEntries - 0.01);
    // No key of the flood looks hot for certain.
    int hot = 0;
    counted.sketch.each_above(
        32, [&](const HotKey& key) { hot += key.tenant == victim.tenant ? 1 : 100; });
    CHECK(hot == 1);
  });
}

TEST_CASE("space saving: a key of yesterday gives way to that of today") {
  Counted counted;
  for (int i = 0; i < 10'000; ++i) counted.add(key_of(1));
  for (int minute = 0; minute < 8; ++minute) {
    counted.halve();
    for (int i = 0; i < 1'000; ++i) counted.add(key_of(2));
  }
  counted.check();
  CHECK(counted.certain_share(key_of(1)) < 0.05);
  CHECK(counted.certain_share(key_of(2)) > 0.95);
  for (int i = 0; i < 32; ++i) counted.halve();
  CHECK(counted.sketch.total() <= 1);
}

TEST_CASE("space saving: no weight and no number of uses overflows it") {
  Counted counted;
  for (int i = 0; i < 100'000; ++i) {
    counted.sketch.add(key_of(std::uint64_t(i) % 3), 0xffff'ffff);
  }
  std::array<SpaceSaving::Entry, SpaceSaving::kHotKeysCounted> entries;
  REQUIRE(counted.sketch.copy_to(entries) == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(entries[i].error == 0);
    const double share = entries[i].count / double(counted.sketch.total());
    CHECK(share == doctest::Approx(1.0 / 3).epsilon(0.02));
  }
}

}  // namespace space_saving_test
