// What a manager does about stores that fail, are late, or are in doubt.
#include <doctest/doctest.h>

#include "daemon/cluster/cluster_codec.h"
#include "daemon/cluster/slot_map_builder.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace manager_store_test {

using namespace manager_rig;
using simm::sim::DiskOutcome;

}  // namespace manager_store_test

TEST_CASE("a map is stored before anybody sees it") {
  using namespace manager_store_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  DiskOutcome outcome = DiskOutcome::failed;
  SUBCASE("the disk does not take it") {
    outcome = DiskOutcome::failed;
  }
  SUBCASE("the disk takes it and says that it failed") {
    outcome = DiskOutcome::written_late;
  }
  rig.disk.next_write = [&] { return outcome; };
  Daemon& b = rig.add("b", 2);
  rig.run(400 * kNsPerMs);
  CHECK(rig.epoch() == 1);
  CHECK(a.epoch() == 1);
  CHECK(b.epoch() == 1);
  CHECK(rig.manager->report(Topic::stats).find("the disk failed") != std::string::npos);
  const base::Epoch there = rig.disk.state->epoch;
  rig.disk.next_write = [] { return DiskOutcome::written; };
  rig.run(2 * kNsPerSecond);
  CHECK(rig.epoch() == there + 1);
  CHECK(rig.disk.state->epoch == rig.epoch());
  CHECK(rig.everybody_has_the_map());
}

TEST_CASE("a store that fails slowly is not tried again before other work was done") {
  using namespace manager_store_test;
  Rig rig;
  rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  // As etcd without a quorum: what is there is asked for in vain too.
  base::TimeNs failed_ns = 0;
  int tries = 0;
  rig.disk.on_read = [&] {
    rig.clock.advance_ns(2 * kNsPerSecond);
    failed_ns = rig.clock.now_ns();
  };
  rig.disk.next_write = [&] {
    ++tries;
    CHECK((failed_ns == 0 || rig.clock.now_ns() - failed_ns >= rig.config.store_retry_ns));
    return DiskOutcome::failed;
  };
  rig.add("b", 2);
  while (tries < 3) rig.run(100 * kNsPerMs);
}

TEST_CASE("a store in doubt is followed by another one, also when its cause has gone") {
  using namespace manager_store_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.add("b", 2);
  rig.run(3 * kNsPerSecond);
  REQUIRE(rig.epoch() == 1);
  // As etcd does with a write that its caller no longer waits for.
  rig.disk.next_write = [] { return DiskOutcome::failed; };
  a.member.want_weight(kGiB / 2);
  rig.run(100 * kNsPerMs);
  REQUIRE_FALSE(rig.manager->store_error().empty());
  a.member.want_weight(kGiB);
  rig.run(100 * kNsPerMs);
  SUBCASE("nothing was stored") {}
  SUBCASE("the state is stored when the manager has looked") {
    const auto owners = rig.manager->membership().owners();
    const auto map =
        build_slot_map(2, owners, rig.manager->map().get(), nullptr, rig.manager->map()->life());
    rig.disk.state = StoredState{2, encode(ManagerState{map.value(), {}}).value()};
  }
  const base::Epoch there = rig.disk.state->epoch;
  rig.disk.next_write = [] { return DiskOutcome::written; };
  rig.run(2 * kNsPerSecond);
  CHECK(rig.epoch() == there + 1);
  CHECK(rig.manager->store_error().empty());
  CHECK(rig.everybody_has_the_map());
  CHECK(rig.slots_of(a) == base::kSlotCount / 2);
  const std::uint64_t writes = rig.disk.writes;
  rig.run(2 * kNsPerSecond);
  CHECK(rig.disk.writes == writes);
}

TEST_CASE("a manager dies right after its write: the next one goes on from there") {
  using namespace manager_store_test;
  Rig rig;
  Daemon& a = rig.add("a", 1);
  rig.run(3 * kNsPerSecond);
  // The write succeeds, and the manager dies before it has pushed anything.
  rig.disk.next_write = [&] { return DiskOutcome::written_late; };
  rig.add("b", 2);
  rig.run(300 * kNsPerMs);
  CHECK(rig.disk.state->epoch == 2);
  CHECK(a.epoch() == 1);
  rig.kill_manager();
  rig.disk.next_write = [] { return DiskOutcome::written; };
  rig.start_manager();
  CHECK(rig.epoch() == 2);
  rig.run(3 * kNsPerSecond);
  CHECK(rig.epoch() == 2);
  CHECK(rig.everybody_has_the_map());
}
