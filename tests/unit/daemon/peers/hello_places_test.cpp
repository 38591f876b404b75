#include <doctest/doctest.h>

#include <optional>

#include "daemon/base/limits.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/hello_places.h"

namespace hello_places_test {

using namespace simm;
using control::HelloPlaces;
using control::HelloStage;

constexpr HelloPlaces::Source kStranger = 1;
constexpr HelloPlaces::Source kHonest = 2;
constexpr base::TimeNs kNowNs = 10 * base::kNsPerSecond;

// Numbers from `first` on, all of one source, which have come so far.
void fill(HelloPlaces& places, HelloPlaces::Id first, std::size_t count, HelloPlaces::Source source,
          HelloStage stage = HelloStage::silent, base::TimeNs since_ns = kNowNs) {
  for (HelloPlaces::Id id = first; id < first + count; ++id) {
    places.add(id, source, since_ns);
    if (stage != HelloStage::silent) places.advance(id, stage);
  }
}

std::optional<HelloPlaces::Id> going(const HelloPlaces& places, HelloStage stage,
                                     base::TimeNs now_ns = kNowNs) {
  return places.room(now_ns).going[static_cast<std::size_t>(stage)];
}

constexpr std::size_t kPlaces = 512;

TEST_CASE("places of hellos: the oldest goes of the source that has most, when it had its chance") {
  HelloPlaces places(kPlaces);
  fill(places, 1, 64, kHonest, HelloStage::silent, kNowNs - 1);
  fill(places, 100, kPlaces - 65, kStranger);
  CHECK_FALSE(places.is_full());
  fill(places, 1000, 1, kStranger);
  CHECK(places.is_full());
  CHECK(places.room(kNowNs + 1).wait_ns == control::kHelloChanceNs - 1);
  const base::TimeNs later_ns = kNowNs + control::kHelloChanceNs;
  CHECK(places.room(later_ns).wait_ns == 0);
  CHECK(going(places, HelloStage::silent, later_ns) == 100);
  places.remove(100);
  CHECK_FALSE(places.is_full());
  CHECK_FALSE(going(places, HelloStage::silent, later_ns).has_value());
}

TEST_CASE("places of hellos: who has said its hello loses its place to no silent one") {
  HelloPlaces places(kPlaces);
  fill(places, 1, 400, kStranger, HelloStage::greeted);
  fill(places, 2000, 400, kStranger, HelloStage::proved);
  CHECK_FALSE(places.is_full());
  fill(places, 5000, kPlaces, kStranger);
  CHECK(going(places, HelloStage::silent) == 5000);
  CHECK_FALSE(going(places, HelloStage::greeted).has_value());
  CHECK_FALSE(going(places, HelloStage::proved).has_value());
}

TEST_CASE("places of hellos: strangers who say hellos take no place of who has proved itself") {
  HelloPlaces places(kPlaces);
  fill(places, 1, 400, kHonest, HelloStage::proved);
  fill(places, 2000, kPlaces - 1, kStranger, HelloStage::greeted);
  fill(places, 9000, 1, kHonest, HelloStage::greeted);
  // Each of them has its chance.
  CHECK(places.room(kNowNs + 1).wait_ns == control::kHelloChanceNs - 1);
  const base::TimeNs later_ns = kNowNs + control::kHelloChanceNs;
  CHECK(places.room(later_ns).wait_ns == 0);
  CHECK(going(places, HelloStage::greeted, later_ns) == 2000);
  CHECK_FALSE(going(places, HelloStage::proved, later_ns).has_value());
  // Who goes on is not among them any more.
  places.advance(2000, HelloStage::proved);
  CHECK_FALSE(going(places, HelloStage::greeted, later_ns).has_value());
}

TEST_CASE("places of hellos: who has proved itself has the time of a hello before it may go") {
  HelloPlaces places(kPlaces);
  fill(places, 1, kPlaces, kHonest, HelloStage::proved);
  CHECK(places.room(kNowNs + 1).wait_ns == control::kHelloTimeNs - 1);
  CHECK(places.room(kNowNs + control::kHelloTimeNs).wait_ns == 0);
  CHECK(going(places, HelloStage::proved, kNowNs + control::kHelloTimeNs) == 1);
}

TEST_CASE("places of hellos: they leave most descriptors to others") {
  CHECK(HelloPlaces::places_of(1'000'000) == base::kHellosMax);
  CHECK(HelloPlaces::places_of(1024) == 128);
}

}  // namespace hello_places_test
