// Which slots take objects of their former owner, and which keys of them do not.
#include <doctest/doctest.h>

#include <memory>

#include "daemon/server/slot_arrivals.h"

namespace {

using namespace simm;
using server::SlotArrivals;

constexpr base::TimeNs kWindowNs = 10 * base::kNsPerSecond;
constexpr base::TimeNs kStartNs = 100 * base::kNsPerSecond;

struct Maps {
  std::unique_ptr<base::SlotOwnership> before = std::make_unique<base::SlotOwnership>();
  std::unique_ptr<base::SlotOwnership> now = std::make_unique<base::SlotOwnership>();
  // The next map, in which the shard owns that slot since then; 0: not at all.
  void step(SlotArrivals& arrivals, base::Slot slot, base::Epoch since,
            base::TimeNs now_ns = kStartNs) {
    *before = *now;
    ++now->epoch;
    now->since[slot] = since;
    arrivals.use(*before, *now, now_ns);
  }
};

base::KeyHash key(std::uint64_t number) {
  return {number * 0x9e3779b97f4a7c15u, number};
}

}  // namespace

TEST_CASE("objects come into the tenure that has begun, and into no other one") {
  SlotArrivals arrivals(16, kWindowNs);
  Maps maps;
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1));
  maps.step(arrivals, 7, 1);
  CHECK(arrivals.may_arrive(7, key(1), 1));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 2));
  CHECK_FALSE(arrivals.may_arrive(8, key(1), 1));
  maps.step(arrivals, 7, 0);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1));
  maps.step(arrivals, 7, 3);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1));
  CHECK(arrivals.may_arrive(7, key(1), 3));
}

TEST_CASE("a key that was written or removed stays closed, also over maps that change nothing") {
  SlotArrivals arrivals(16, kWindowNs);
  Maps maps;
  maps.step(arrivals, 7, 1);
  CHECK(arrivals.note_write(7, key(1)));
  CHECK(arrivals.note_write(7, key(1)));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1));
  CHECK(arrivals.may_arrive(7, key(2), 1));
  maps.step(arrivals, 9, 2);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1));
}

TEST_CASE("what was written in a tenure that is over closes no key of the next one") {
  SlotArrivals arrivals(16, kWindowNs);
  Maps maps;
  maps.step(arrivals, 7, 1);
  maps.step(arrivals, 9, 2);  // keeps the memory
  REQUIRE(arrivals.note_write(7, key(1)));
  maps.step(arrivals, 7, 0);
  maps.step(arrivals, 7, 4);
  CHECK(arrivals.may_arrive(7, key(1), 4));
  REQUIRE(arrivals.note_write(7, key(1)));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 4));
}

TEST_CASE("without room for one more key its slot takes nothing any more, other slots do") {
  SlotArrivals arrivals(4, kWindowNs);
  Maps maps;
  maps.step(arrivals, 7, 1);
  maps.step(arrivals, 8, 2);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(arrivals.note_write(7, key(i)));
  CHECK_FALSE(arrivals.note_write(7, key(100)));
  CHECK_FALSE(arrivals.may_arrive(7, key(200), 1));
  CHECK(arrivals.may_arrive(8, key(200), 2));
  CHECK(arrivals.open_slots() == 1);
}

TEST_CASE("after the window nothing comes, and keys are forgotten with the last slot") {
  SlotArrivals arrivals(4, kWindowNs);
  Maps maps;
  maps.step(arrivals, 7, 1);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(arrivals.note_write(7, key(i)));
  arrivals.look_at_time(kStartNs + kWindowNs - 1);
  CHECK(arrivals.open_slots() == 1);
  arrivals.look_at_time(kStartNs + kWindowNs);
  CHECK(arrivals.open_slots() == 0);
  CHECK_FALSE(arrivals.may_arrive(7, key(9), 1));
  maps.step(arrivals, 8, 2, kStartNs + 2 * kWindowNs);
  CHECK(arrivals.note_write(8, key(50)));
  CHECK(arrivals.may_arrive(8, key(0), 2));
}

TEST_CASE("a daemon that comes back with its objects opens no slot of its first map") {
  SlotArrivals arrivals(4, kWindowNs);
  arrivals.had_earlier_life();
  Maps maps;
  maps.step(arrivals, 7, 1);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1));
  maps.step(arrivals, 8, 2);
  CHECK(arrivals.may_arrive(8, key(1), 2));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1));
}

TEST_CASE("without a window nothing ever moves") {
  SlotArrivals arrivals(4, 0);
  Maps maps;
  maps.step(arrivals, 7, 1);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1));
}
