#include "daemon/peers/path_trials.h"

#include <doctest/doctest.h>

namespace simm::control {

using transport::LinkLoss;

TEST_CASE("path trials: each place is tried, then the pauses grow, until the other end is heard") {
  constexpr base::TimeNs kFirst = base::kNsPerSecond;
  PathTrials trials;
  CHECK(trials.pause_ns(1, kFirst) == 0);
  trials.on_ended(LinkLoss::silent, false);
  CHECK(trials.pause_ns(1, kFirst) == 0);
  // What ends otherwise says nothing about the path.
  trials.on_ended(LinkLoss::closed, false);
  CHECK(trials.places_passed() == 1);
  trials.on_ended(LinkLoss::silent, false);
  CHECK(trials.pause_ns(1, kFirst) == kFirst);
  CHECK(trials.pause_ns(4, kFirst) == 0);
  for (base::TimeNs expected = 2; expected <= 32; expected *= 2) {
    trials.on_ended(LinkLoss::silent, false);
    CHECK(trials.pause_ns(2, kFirst) == expected * kFirst);
  }
  trials.on_ended(LinkLoss::silent, false);
  CHECK(trials.pause_ns(2, kFirst) == 32 * kFirst);
  trials.on_ended(LinkLoss::silent, true);
  CHECK(trials.pause_ns(2, kFirst) == 0);
  CHECK(trials.places_passed() == 9);
}

}  // namespace simm::control
