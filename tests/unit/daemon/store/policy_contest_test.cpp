#include "daemon/store/eviction/policy_contest.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <random>

#include "daemon/base/random.h"

namespace simm::store::testing {

namespace {

constexpr base::TimeNs kContestSecond = base::kNsPerSecond;

std::uint64_t contest_seed() {
  const char* text = std::getenv("SIMM_SEED");
  return text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

struct ContestInMemory {
  std::unique_ptr<ReuseModel::Memory> watched = std::make_unique<ReuseModel::Memory>();
  ReuseModel model{*watched};
  std::unique_ptr<PolicyContest::Memory> names = std::make_unique<PolicyContest::Memory>();
  PolicyContest contest{*names};
};

// A model that has learned that groups come back after 1,000 s, once and not before.
void teach_late(ReuseModel& model) {
  for (std::uint64_t second = 1; second < 6000; ++second) {
    for (std::uint64_t i = 0; i < 20; ++i) {
      model.note((second * 20 + i) * 7919, 1, 1000, second * kContestSecond);
      if (second <= 1000) continue;
      model.note(((second - 1000) * 20 + i) * 7919, 2, 1000, second * kContestSecond);
    }
  }
}

}  // namespace

TEST_CASE("who comes back soon, against what was learned: age decides") {
  ContestInMemory in;
  teach_late(in.model);
  base::TimeNs now_ns = 10'000 * kContestSecond;
  bool had_worth = false;
  // Five groups a second, each used every 10 s five times, and five that never come back: a store
  // of 400 has room for the former. Worth would rather wait for the latter.
  for (std::uint64_t second = 100; second < 2000; ++second, now_ns += kContestSecond) {
    for (std::uint64_t i = 0; i < 5; ++i) {
      in.contest.note((second * 10 + i + 5) * 7919, 1, 400, in.model, now_ns);
      for (std::uint8_t turn = 0; turn < 5; ++turn) {
        const auto uses = static_cast<std::uint8_t>(turn + 1);
        in.contest.note(((second - 10 * turn) * 10 + i) * 7919, uses, 400, in.model, now_ns);
      }
    }
    had_worth |= !in.contest.prefers_age();
  }
  CHECK(had_worth);
  CHECK(in.contest.prefers_age());
}

TEST_CASE("while nothing was ever hit age decides, and worth from the first hit on") {
  ContestInMemory in;
  for (std::uint64_t i = 1; i < 5000; ++i) {
    in.contest.note(i * 7919, 1, 400, in.model, i * kContestSecond);
    REQUIRE(in.contest.prefers_age());
  }
  in.contest.note(std::uint64_t{4999} * 7919, 2, 400, in.model, 5000 * kContestSecond);
  CHECK_FALSE(in.contest.prefers_age());
}

TEST_CASE("without experience worth is age, and neither leads") {
  ContestInMemory in;
  base::SeededRandom random(7);
  for (int i = 0; i < 100'000; ++i) {
    in.contest.note(random.below(3000), 1, 1000, in.model,
                    static_cast<base::TimeNs>(i) * 10'000'000);
    if (i >= 1000) REQUIRE_FALSE(in.contest.prefers_age());  // some were hit by then
  }
}

TEST_CASE("random contests: the sample follows the tenant's part, up and down") {
  const std::uint64_t seed = contest_seed();
  INFO("repeat: SIMM_SEED=" << seed << " unit_store -tc='random contests*'");
  base::SeededRandom random(seed);
  ContestInMemory in;
  teach_late(in.model);
  base::TimeNs now_ns = 10'000 * kContestSecond;
  std::uint32_t groups = 100;
  for (int i = 0; i < 200'000; ++i) {
    now_ns += random.below(kContestSecond);
    if (random.below(10'000) == 0) groups = 1u << random.below(22);
    const std::uint64_t name = random.below(2 * std::uint64_t{groups} + 1) * 0x9e3779b97f4a7c15u;
    in.contest.note(name, static_cast<std::uint8_t>(random.below(6)), groups, in.model, now_ns);
  }
}

}  // namespace simm::store::testing
