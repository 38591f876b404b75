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
  // The next map, which says that the daemon is back.
  void come_back(SlotArrivals& arrivals, base::TimeNs now_ns) {
    *before = *now;
    now->back_since = ++now->epoch;
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
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1, false));
  maps.step(arrivals, 7, 1);
  CHECK(arrivals.may_arrive(7, key(1), 1, false));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 2, false));
  CHECK_FALSE(arrivals.may_arrive(8, key(1), 1, false));
  maps.step(arrivals, 7, 0);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1, false));
  maps.step(arrivals, 7, 3);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1, false));
  CHECK(arrivals.may_arrive(7, key(1), 3, false));
}

TEST_CASE("a key that was written or removed stays closed, also over maps that change nothing") {
  SlotArrivals arrivals(16, kWindowNs);
  Maps maps;
  maps.step(arrivals, 7, 1);
  CHECK(arrivals.note_write(7, key(1)));
  CHECK(arrivals.note_write(7, key(1)));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1, false));
  CHECK(arrivals.may_arrive(7, key(2), 1, false));
  maps.step(arrivals, 9, 2);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1, false));
}

TEST_CASE("what was written in a tenure that is over closes no key of the next one") {
  SlotArrivals arrivals(16, kWindowNs);
  Maps maps;
  maps.step(arrivals, 7, 1);
  maps.step(arrivals, 9, 2);  // keeps the memory
  REQUIRE(arrivals.note_write(7, key(1)));
  maps.step(arrivals, 7, 0);
  maps.step(arrivals, 7, 4);
  CHECK(arrivals.may_arrive(7, key(1), 4, false));
  REQUIRE(arrivals.note_write(7, key(1)));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 4, false));
}

TEST_CASE("without room for one more key its slot takes nothing any more, other slots do") {
  SlotArrivals arrivals(4, kWindowNs);
  Maps maps;
  maps.step(arrivals, 7, 1);
  maps.step(arrivals, 8, 2);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(arrivals.note_write(7, key(i)));
  CHECK_FALSE(arrivals.note_write(7, key(100)));
  CHECK_FALSE(arrivals.may_arrive(7, key(200), 1, false));
  CHECK(arrivals.may_arrive(8, key(200), 2, false));
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
  CHECK_FALSE(arrivals.may_arrive(7, key(9), 1, false));
  maps.step(arrivals, 8, 2, kStartNs + 2 * kWindowNs);
  CHECK(arrivals.note_write(8, key(50)));
  CHECK(arrivals.may_arrive(8, key(0), 2, false));
}

TEST_CASE("a daemon that comes back with its objects opens the slots that it has never served") {
  SlotArrivals arrivals(4, kWindowNs);
  arrivals.had_earlier_life(3);
  Maps maps;
  maps.now->epoch = 4;
  maps.now->since[6] = 4;
  maps.step(arrivals, 7, 3);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 3, false));
  CHECK_FALSE(arrivals.may_arrive(6, key(1), 4, false));  // `before` had it
  CHECK(arrivals.open_slots() == 0);
  maps.step(arrivals, 8, 6);
  CHECK(arrivals.may_arrive(8, key(1), 6, false));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 3, false));

  SlotArrivals others(4, kWindowNs);
  others.had_earlier_life(3);
  Maps first;
  first.now->since[7] = 3;
  first.now->since[8] = 4;
  first.now->epoch = 4;
  others.use(*first.before, *first.now, kStartNs);
  CHECK_FALSE(others.may_arrive(7, key(1), 3, false));
  CHECK(others.may_arrive(8, key(1), 4, false));
}

TEST_CASE("a daemon that was away takes second copies, and none of a key that was removed since") {
  SlotArrivals arrivals(4, kWindowNs);
  Maps maps;
  maps.step(arrivals, 7, 1);
  arrivals.look_at_time(kStartNs + kWindowNs);
  REQUIRE(arrivals.open_slots() == 0);
  maps.come_back(arrivals, kStartNs + 2 * kWindowNs);
  CHECK(arrivals.open_slots() == 1);
  CHECK(arrivals.may_arrive(7, key(1), 2, true));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1, true));   // under a map of before
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 2, false));  // it has one copy, which was here or lost
  CHECK_FALSE(arrivals.may_arrive(8, key(1), 2, true));
  // Only what matters takes up memory.
  for (std::uint64_t i = 0; i < 9; ++i) {
    CHECK(arrivals.note_write(7, key(i)));
    CHECK(arrivals.note_remove(7, key(i), false));
  }
  CHECK(arrivals.may_arrive(7, key(1), 2, true));
  CHECK(arrivals.note_remove(7, key(1), true));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 2, true));
  CHECK(arrivals.may_arrive(7, key(2), 2, true));
  // It is away once more: what was removed before can be put again, and be copied.
  maps.step(arrivals, 9, 0, kStartNs + 2 * kWindowNs);
  maps.come_back(arrivals, kStartNs + 2 * kWindowNs);
  CHECK(arrivals.may_arrive(7, key(1), 4, true));
  CHECK(arrivals.note_remove(7, key(1), true));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 4, true));
  CHECK(arrivals.may_arrive(7, key(2), 4, true));
  CHECK_FALSE(arrivals.may_arrive(7, key(2), 3, true));
  arrivals.look_at_time(kStartNs + 3 * kWindowNs);
  CHECK_FALSE(arrivals.may_arrive(7, key(2), 4, true));
}

TEST_CASE("a daemon that was away while objects were on their way to it takes both") {
  SlotArrivals arrivals(4, kWindowNs);
  Maps maps;
  maps.step(arrivals, 7, 1);
  REQUIRE(arrivals.note_write(7, key(1)));
  maps.come_back(arrivals, kStartNs + kWindowNs / 2);
  CHECK(arrivals.may_arrive(7, key(2), 1, false));
  CHECK(arrivals.may_arrive(7, key(2), 2, true));
  CHECK_FALSE(arrivals.may_arrive(7, key(2), 2, false));
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1, true));
  CHECK(arrivals.may_arrive(7, key(1), 2, true));  // it was written, and has that value
  REQUIRE(arrivals.note_write(7, key(2)));
  CHECK_FALSE(arrivals.may_arrive(7, key(2), 1, false));
  CHECK(arrivals.may_arrive(7, key(2), 2, true));
  REQUIRE(arrivals.note_remove(7, key(2), true));
  CHECK_FALSE(arrivals.may_arrive(7, key(2), 2, true));
  arrivals.look_at_time(kStartNs + kWindowNs);
  CHECK(arrivals.may_arrive(7, key(3), 2, true));  // for longer
}

TEST_CASE("without a window nothing ever moves") {
  SlotArrivals arrivals(4, 0);
  Maps maps;
  maps.step(arrivals, 7, 1);
  CHECK_FALSE(arrivals.may_arrive(7, key(1), 1, false));
}
