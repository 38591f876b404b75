#include "daemon/peers/member_watch.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include "ipc/fd.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace member_watch_test {

using namespace manager_rig;
using base::EventKind;
using simm::control::MemberWatch;

// A cluster of three owners of slots, and what its manager's watch tells.
struct Scene {
  Scene() {
    rig.add("a", 1);
    rig.add("b", 2);
    rig.add("c", 3);
    run(3 * kNsPerSecond);
    REQUIRE(rig.everybody_has_the_map());
    take();
  }
  void run(base::TimeNs for_ns) {
    for (base::TimeNs left = for_ns; left >= MemberWatch::kLookNs; left -= MemberWatch::kLookNs) {
      rig.run(MemberWatch::kLookNs);
      watch.look(*rig.manager);
    }
  }
  // What is new: "kind subject".
  std::vector<std::string> take() {
    const base::EventLog::Page page = events.page(since);
    since = page.next;
    std::vector<std::string> told;
    for (const base::Event& event : page.events) {
      told.push_back(std::string(base::row_of(event.kind).name) + " " + event.subject);
      last_text = event.text;
    }
    return told;
  }
  // Which of the others a daemon reaches, by the places in the map.
  void reach(Daemon& daemon, const std::vector<Daemon*>& others) {
    daemon.reached = MemberSet();
    for (const Daemon* other : others) {
      const auto index = rig.manager->map()->find(other->member.config().identity.incarnation);
      REQUIRE(index.has_value());
      daemon.reached->set(*index);
    }
  }
  Daemon& daemon(std::size_t i) { return *rig.daemons[i]; }

  Rig rig;
  base::CounterSet counters;
  simm::ipc::UniqueFd nowhere{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  base::Log log{rig.clock, base::LogLevel::error, nowhere.get(), false};
  base::EventLog events{rig.clock, log, counters};
  MemberWatch watch{rig.clock, events};
  std::uint64_t since = 0;
  std::string last_text;
};

using Told = std::vector<std::string>;

TEST_CASE("members that join, are away, come back and are gone are told once each") {
  Scene scene;
  Daemon& late = scene.rig.add("late", 9);
  scene.run(3 * kNsPerSecond);
  CHECK(scene.take() == Told{"member_joined storage/late"});
  late.reachable = false;
  scene.run(2 * kNsPerSecond);
  CHECK(scene.take() == Told{"member_away storage/late"});
  late.reachable = true;
  scene.run(3 * kNsPerSecond);
  CHECK(scene.take() == Told{"member_returned storage/late"});
  scene.rig.remove(late);
  scene.run(120 * kNsPerSecond);
  CHECK(scene.take() == Told{"member_away storage/late", "member_gone storage/late"});
  scene.run(10 * kNsPerSecond);
  CHECK(scene.take().empty());
}

TEST_CASE("a path that is broken between daemons is told by the manager, which hears both") {
  Scene scene;
  Daemon& a = scene.daemon(0);
  Daemon& b = scene.daemon(1);
  Daemon& c = scene.daemon(2);
  scene.reach(a, {&a, &b, &c});
  scene.reach(b, {&a, &b, &c});
  scene.run(3 * kNsPerSecond);
  CHECK(scene.take().empty());
  scene.reach(a, {&a, &b});
  scene.run(kNsPerSecond / 2);
  CHECK(scene.take().empty());  // it may be a moment
  scene.run(2 * kNsPerSecond);
  CHECK(scene.take() == Told{"paths_broken storage/c"});
  CHECK(scene.last_text == "unreached_by=1 of=2");
  scene.run(10 * kNsPerSecond);
  CHECK(scene.take().empty());
  scene.reach(a, {&a, &b, &c});
  scene.run(kNsPerSecond);
  CHECK(scene.take() == Told{"paths_back storage/c"});
}

TEST_CASE("a daemon that is dead is away, and no broken path") {
  Scene scene;
  Daemon& c = scene.daemon(2);
  scene.reach(scene.daemon(0), {&scene.daemon(0), &scene.daemon(1)});
  c.reachable = false;
  scene.run(5 * kNsPerSecond);
  CHECK(scene.take() == Told{"member_away storage/c"});
}

TEST_CASE("a manager that is cut off says so, and when that is over") {
  Scene scene;
  for (std::size_t i = 0; i < 3; ++i) scene.daemon(i).reachable = false;
  scene.run(3 * kNsPerSecond);
  Told told = scene.take();
  CHECK(std::count(told.begin(), told.end(), "cut_off this one") == 1);
  for (std::size_t i = 0; i < 3; ++i) scene.daemon(i).reachable = true;
  scene.run(5 * kNsPerSecond);
  told = scene.take();
  CHECK(std::count(told.begin(), told.end(), "heard_again this one") == 1);
}

}  // namespace member_watch_test
