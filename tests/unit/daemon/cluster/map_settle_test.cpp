// Daemons that come, or leave, one behind the other share a map: few maps may follow each other at
// once, so a map for each of the first ones would keep the last ones waiting.
#include <doctest/doctest.h>

#include "tests/unit/daemon/cluster/manager_rig.h"

namespace map_settle_test {

using namespace manager_rig;

constexpr base::TimeNs kTurnNs = 10 * kNsPerMs;

struct Crowd {
  Crowd() {
    for (std::uint64_t number = 1; number <= 30; ++number) join();
    rig.run(5 * kNsPerSecond);  // the first map has its own wait, and the bucket is full again
    REQUIRE(rig.epoch() == 1);
  }
  Daemon& join() {
    ++count;
    return rig.add("d" + std::to_string(count), count);
  }
  [[nodiscard]] std::size_t in_map() const { return rig.manager->map()->members().size(); }

  Rig rig;
  std::uint64_t count = 0;
};

TEST_CASE("daemons that join one behind the other share a map") {
  Crowd crowd;
  for (int i = 0; i < 20; ++i) {
    crowd.join();
    crowd.rig.run(kTurnNs);
  }
  crowd.rig.run(6 * kTurnNs);
  CHECK(crowd.rig.epoch() == 2);
  CHECK(crowd.in_map() == 50);
  CHECK(crowd.rig.everybody_has_the_map());
}

TEST_CASE("who joins waits for those behind it, but not for long") {
  Crowd crowd;
  const Daemon& first = crowd.join();
  const base::TimeNs longest_ns = crowd.rig.config.settle_ns_max;
  for (base::TimeNs waited_ns = 0; waited_ns < longest_ns; waited_ns += kTurnNs) {
    CHECK(crowd.rig.epoch() == 1);
    crowd.rig.run(kTurnNs);
    crowd.join();
  }
  crowd.rig.run(4 * kTurnNs);
  CHECK(crowd.rig.slots_of(first) > 0);
}

TEST_CASE("the first that drains waits for nobody, and the others share a map") {
  Crowd crowd;
  crowd.rig.daemons[0]->member.drain();
  crowd.rig.run(kTurnNs);
  CHECK(crowd.rig.epoch() == 2);
  CHECK(crowd.in_map() == 29);
  for (std::size_t i = 1; i < 15; ++i) {
    crowd.rig.daemons[i]->member.drain();
    crowd.rig.run(kTurnNs);
  }
  crowd.rig.run(4 * kTurnNs);
  CHECK(crowd.rig.epoch() == 3);
  CHECK(crowd.in_map() == 15);
}

}  // namespace map_settle_test
