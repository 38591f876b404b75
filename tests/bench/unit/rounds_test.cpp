#include <doctest/doctest.h>

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench::rounds_test {

Rounds with_baselines(const std::vector<double>& values) {
  Rounds rounds;
  for (const double value : values) rounds.add_baseline({value, false});
  return rounds;
}

TEST_CASE("a result has the medians of its rounds, and says how many") {
  Rounds rounds = with_baselines({2, 40, 4});
  rounds.values = {9, 1, 3};
  const Result result = rounds.result("a", "us", {{"pages", 8}});
  CHECK(result.value == 3);
  CHECK(result.baseline == 4);
  CHECK(result.params["rounds"] == 3);
  CHECK(result.params["pages"] == 8);
  CHECK_FALSE(result.noisy);
}

TEST_CASE("baselines that differ by more than they may make a result noisy") {
  Rounds calm = with_baselines({2, 4, 3});
  calm.judge_spread(2);
  CHECK_FALSE(calm.noisy);
  Rounds wild = with_baselines({3, 4.1, 2});
  wild.judge_spread(2);
  CHECK(wild.noisy);
  Rounds none;
  none.judge_spread(2);
  CHECK_FALSE(none.noisy);
}

TEST_CASE("one noisy baseline is enough, and a small spread does not undo it") {
  Rounds rounds = with_baselines({2, 2});
  rounds.add_baseline({2, true});
  rounds.judge_spread(2);
  CHECK(rounds.noisy);
}

TEST_CASE("a baseline that could not be measured is left out, and the result noisy") {
  Rounds rounds = with_baselines({2, 4});
  rounds.add_baseline({0, true});
  CHECK(rounds.result("a", "us", {}).baseline == 3);
  CHECK(rounds.result("a", "us", {}).noisy);
  Rounds none;
  none.add_baseline({0, true});
  CHECK_FALSE(none.result("a", "us", {}).baseline);
}

}  // namespace simm::bench::rounds_test
