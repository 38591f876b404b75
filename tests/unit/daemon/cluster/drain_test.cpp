// Drains on request: the steps of one, whom a manager passes them on to, and releases that do not
// know them.
#include <doctest/doctest.h>

#include "daemon/cluster/cluster_codec.h"
#include "daemon/cluster/drain_course.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace drain_test {

using namespace manager_rig;
using simm::Status;
using Next = DrainCourse::Next;

// Two storage daemons, a node, and the node's question.
struct Scene {
  Scene() { rig.run(2 * kNsPerSecond); }
  Answer ask(Question question) {
    question.id = ++ids;
    REQUIRE(node.member.ask(question) == Status::ok);
    rig.run(100 * kNsPerMs);
    REQUIRE_FALSE(node.answers.empty());
    const Answer answer = node.answers.back();
    CHECK(answer.id == question.id);
    return answer;
  }
  Answer drain(const std::string& target, bool is_named = true) {
    return ask({0, Topic::drain, target, 0, is_named});
  }

  Rig rig;
  Daemon& a = rig.add("a", 1);
  Daemon& b = rig.add("b", 2);
  Daemon& node = rig.add("n", 9, 0, ClusterRole::node);
  std::uint64_t ids = 0;
};

}  // namespace drain_test

TEST_CASE("a drain gives its slots away in steps, and waits for each") {
  using namespace drain_test;
  DrainCourse course;
  CHECK(course.look(0, {1600, true}) == Next::wait);
  CHECK(std::string(drain_state_name(course.state())) == "none");
  course.begin(1600, 4, base::kNoDeadline);
  CHECK(course.weight_bytes() == 1600);
  CHECK(course.look(1, {1500, true}) == Next::wait);  // a map from before the daemon had it all
  CHECK(course.look(2, {1600, true}) == Next::want_less);
  CHECK(course.weight_bytes() == 1200);
  CHECK(course.look(3, {1600, true}) == Next::wait);   // the map does not say so yet
  CHECK(course.look(4, {1200, false}) == Next::wait);  // objects are on their way
  for (const std::uint64_t weight : {1200U, 800U, 400U}) {
    CHECK(course.look(5, {weight, true}) == Next::want_less);
  }
  CHECK(course.weight_bytes() == 0);
  CHECK(course.state() == DrainState::draining);
  CHECK(course.look(6, {0, false}) == Next::wait);
  CHECK(course.look(7, {0, true}) == Next::end);
  CHECK(course.state() == DrainState::drained);
  CHECK_FALSE(course.is_late());
  CHECK(course.look(8, {0, true}) == Next::wait);
  course.cancel();
  CHECK(course.look(9, {0, true}) == Next::take_back);
  course.forget();
  CHECK_FALSE(course.is_on());
}

TEST_CASE("the end of a drain waits for the step that is under way, and for no deadline") {
  using namespace drain_test;
  DrainCourse course;
  course.begin(1600, 4, 100);
  REQUIRE(course.look(1, {1600, true}) == Next::want_less);
  SUBCASE("the map does not say so yet") {}
  SUBCASE("objects are on their way") {
    CHECK(course.look(2, {1200, false}) == Next::wait);
  }
  course.cancel();
  CHECK(course.is_cancelled());
  CHECK(course.is_on());
  CHECK(course.look(3, {1600, true}) == Next::wait);
  CHECK(course.look(100, {1200, false}) == Next::wait);
  CHECK(course.look(101, {1200, true}) == Next::take_back);
  course.forget();
  CHECK_FALSE(course.is_cancelled());
}

TEST_CASE("behind its deadline a drain ends at once") {
  using namespace drain_test;
  DrainCourse course;
  course.begin(1600, 4, 100);
  REQUIRE(course.look(1, {1600, true}) == Next::want_less);
  REQUIRE(course.look(100, {1200, false}) == Next::drop_rest);
  course.cancel();
  CHECK(course.look(101, {1200, false}) == Next::take_back);
}

TEST_CASE("the deadline of a drain drops what is left, once") {
  using namespace drain_test;
  DrainCourse course;
  course.begin(1600, 16, 100);
  CHECK(course.look(1, {1600, true}) == Next::want_less);
  CHECK(course.look(99, {1500, false}) == Next::wait);
  CHECK(course.look(100, {1500, false}) == Next::drop_rest);
  CHECK(course.weight_bytes() == 0);
  CHECK(course.is_late());
  CHECK(course.look(101, {1500, false}) == Next::wait);
  CHECK(course.look(102, {0, true}) == Next::end);
  CHECK(course.state() == DrainState::cut_short);
}

TEST_CASE("a weight below the number of steps is never taken for none") {
  using namespace drain_test;
  DrainCourse course;
  course.begin(3, 100, base::kNoDeadline);
  CHECK(course.steps() == DrainCourse::kStepsMax);
  CHECK(course.weight_bytes() == 1);
}

TEST_CASE(
    "a member that wants less has fewer slots in the next map, and all again when it says so") {
  using namespace drain_test;
  Scene scene;
  Rig& rig = scene.rig;
  const std::uint32_t half = rig.slots_of(scene.a);
  CHECK(half == base::kSlotCount / 2);
  const base::Epoch epoch = rig.epoch();
  scene.a.member.want_weight(kGiB / 3);
  CHECK(scene.a.member.weight_in_map() == kGiB);
  rig.run(1 * kNsPerSecond);
  CHECK(rig.slots_of(scene.a) == base::kSlotCount / 4);
  CHECK(scene.a.member.weight_in_map() == kGiB / 3);
  CHECK(scene.a.member.state() == LinkState::joined);
  CHECK(rig.epoch() == epoch + 1);
  CHECK(rig.manager->map()->follows() != 0);

  SUBCASE("a manager that is restarted hears the same") {
    rig.kill_manager();
    rig.start_manager();
    rig.run(2 * kNsPerSecond);
    CHECK(rig.slots_of(scene.a) == base::kSlotCount / 4);
  }
  SUBCASE("nothing, and all again") {
    scene.a.member.want_weight(0);
    rig.run(1 * kNsPerSecond);
    CHECK(scene.a.member.owns_nothing());
    CHECK(scene.a.member.weight_in_map() == 0);
    CHECK(rig.slots_of(scene.b) == base::kSlotCount);
  }
  SUBCASE("the wish changes while the Join is under way") {
    rig.hang_up(scene.a);
    scene.a.member.want_weight(0);
    rig.run(1 * kNsPerSecond);
    CHECK(scene.a.member.owns_nothing());
  }
  scene.a.member.want_weight(2 * kGiB);  // no more than it has
  rig.run(1 * kNsPerSecond);
  CHECK(rig.slots_of(scene.a) == half);
  CHECK(rig.everybody_has_the_map());
  CHECK(scene.a.closed.empty());
}

TEST_CASE("a manager passes a drain on, and says why it does not") {
  using namespace drain_test;
  Scene scene;
  const Answer passed = scene.ask({0, Topic::drain, "a", 7000, false});
  CHECK(passed.status == Status::ok);
  CHECK(passed.text == "\"I am a\"");
  REQUIRE(scene.a.asked.size() == 1);
  CHECK(scene.a.asked[0].topic == Topic::drain);
  CHECK(scene.a.asked[0].deadline_ms == 7000);

  CHECK(scene.drain("storage/x").status == Status::not_found);
  const Answer no_pool = scene.drain("n");
  CHECK(no_pool.status == Status::invalid_argument);
  CHECK(no_pool.text == "node/n has no pool and so no slots: there is nothing to drain");
  CHECK(scene.node.asked.empty());
  CHECK(scene.ask({0, Topic::cancel_drain, "storage/b"}).status == Status::ok);
  CHECK(scene.ask({0, Topic::moves, "n"}).status == Status::ok);
}

TEST_CASE("the last owner drains only if a person names it") {
  using namespace drain_test;
  Scene scene;
  scene.a.drains = true;
  scene.rig.run(1 * kNsPerSecond);
  CHECK(scene.rig.manager->report(Topic::nodes).find("\"draining\"") != std::string::npos);
  const Answer refused = scene.ask({0, Topic::drain, "storage/b", 0, false, true});
  CHECK(refused.status == Status::invalid_argument);
  CHECK(refused.text.find("storage/b is the last daemon that can own slots") == 0);
  CHECK(refused.text.find("simmctl drain storage/b") != std::string::npos);
  CHECK(scene.b.asked.empty());
  CHECK(scene.ask({0, Topic::drain, "storage/b", 0, true, true}).status == Status::ok);
  // It may end its drain, whoever asks.
  CHECK(scene.ask({0, Topic::cancel_drain, "storage/b"}).status == Status::ok);
}

TEST_CASE("of two drains that come at once the second one knows of the first") {
  using namespace drain_test;
  Scene scene;
  scene.a.frozen = scene.b.frozen = true;  // neither has answered yet
  REQUIRE(scene.node.member.ask({1, Topic::drain, "a", 0, false}) == Status::ok);
  REQUIRE(scene.node.member.ask({2, Topic::drain, "b", 0, false}) == Status::ok);
  scene.rig.run(100 * kNsPerMs);
  REQUIRE(scene.node.answers.size() == 1);
  CHECK(scene.node.answers[0].id == 2);
  CHECK(scene.node.answers[0].status == Status::invalid_state);
}

TEST_CASE("a second drain waits for the first one, unless a person wants both at once") {
  using namespace drain_test;
  Scene scene;
  scene.rig.add("c", 3);
  scene.rig.run(2 * kNsPerSecond);
  scene.a.drains = true;
  scene.rig.run(1 * kNsPerSecond);
  // Neither by its name nor without.
  for (const bool is_named : {false, true}) {
    const Answer refused = scene.drain("storage/b", is_named);
    CHECK(refused.status == Status::invalid_state);
    CHECK(refused.text.find("storage/a drains") == 0);
    CHECK(refused.text.find("simmctl moves storage/a") != std::string::npos);
    CHECK(refused.text.find("--force") != std::string::npos);
  }
  CHECK(scene.b.asked.empty());
  // The one that drains says itself that it does so already.
  CHECK(scene.drain("storage/a").status == Status::ok);
  CHECK(scene.ask({0, Topic::drain, "storage/b", 0, true, true}).status == Status::ok);
  CHECK(scene.ask({0, Topic::cancel_drain, "storage/b"}).status == Status::ok);
  // It has drained, and lives on without slots.
  scene.a.member.drain();
  scene.rig.run(1 * kNsPerSecond);
  CHECK(scene.drain("storage/b").status == Status::ok);
}

TEST_CASE("a name that two daemons have is to be written in full") {
  using namespace drain_test;
  Scene scene;
  scene.rig.add("a", 7, kGiB, ClusterRole::node);
  scene.rig.run(2 * kNsPerSecond);
  const Answer answer = scene.drain("a");
  CHECK(answer.status == Status::invalid_argument);
  CHECK(answer.text == "several daemons are called 'a': write node/a or storage/a");
  CHECK(scene.drain("storage/a").status == Status::ok);
}

TEST_CASE("a daemon of an earlier release is not asked to drain") {
  using namespace drain_test;
  Scene scene;
  Daemon& old = scene.rig.add("old", 5);
  old.features = kFeatureMapDeltas;
  scene.rig.run(2 * kNsPerSecond);
  CHECK_FALSE(old.member.manager_knows_drains());
  CHECK(scene.a.member.manager_knows_drains());
  const Answer answer = scene.drain("storage/old");
  CHECK(answer.status == Status::incompatible);
  CHECK(answer.text.find("storage/old is of an earlier release") == 0);
  CHECK(old.asked.empty());
  CHECK(old.closed.empty());
}

TEST_CASE("a drain that is too long is refused, whoever says it") {
  using namespace drain_test;
  Scene scene;
  const auto bytes = encode(MemberMessage(Question{1, Topic::drain, "a", kDrainMsMax + 1, true}));
  REQUIRE(bytes.has_value());
  CHECK(decode_member_message(*bytes).status() == Status::invalid_argument);
  scene.rig.manager->on_message(scene.node.connection, *bytes);
  CHECK(scene.node.closed.size() == 1);
  CHECK(scene.a.asked.empty());
}
