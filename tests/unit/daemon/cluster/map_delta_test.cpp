// What differs between two maps, and who is sent only that.
#include "daemon/cluster/map_delta.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "daemon/cluster/cluster_codec.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace map_delta_test {

using namespace manager_rig;
using simm::Status;

std::size_t bytes_of(const ManagerMessage& message) {
  return encode(message).value().size();
}

TEST_CASE("a delta makes of its base the very map that it is the difference to") {
  const std::uint64_t seed = seed_of_run();
  CAPTURE(seed);
  std::mt19937_64 dice(seed);
  std::vector<MapMember> now = members(40);
  SlotMapPtr map = build_slot_map(1, now, nullptr, nullptr, {{7, 8}, {}}).value();
  for (base::Epoch epoch = 2; epoch < 40; ++epoch) {
    // Some leave, some come with another incarnation or address, some are new.
    std::erase_if(now, [&](const MapMember&) { return now.size() > 2 && dice() % 8 == 0; });
    std::uint64_t another = 1000 * epoch;  // no two members have the same one
    for (MapMember& member : now) {
      if (dice() % 10 == 0) member.identity.incarnation = incarnation(another++);
      if (dice() % 10 == 0) member.port = static_cast<std::uint16_t>(1 + dice() % 60000);
      if (dice() % 10 == 0) member.grace_ms = static_cast<std::uint32_t>(dice() % 1000);
    }
    const std::uint64_t number = 100'000 + epoch;
    if (dice() % 2 == 0) now.push_back(member("n" + std::to_string(epoch), number, 2 * kGiB));
    const MapLife life{{7, 8}, {{{9, 10}, epoch}}};
    const SlotMapPtr next = build_slot_map(epoch, now, map.get(), map.get(), life).value();
    const MapDelta delta = delta_of(*map, *next);
    const auto decoded = decode_manager_message(encode(ManagerMessage(delta)).value());
    REQUIRE(decoded.has_value());
    const auto made = apply(std::get<MapDelta>(decoded.value()), *map);
    REQUIRE(made.has_value());
    CHECK(*made.value() == *next);
    map = next;
  }
}

TEST_CASE("a delta is for its base and for nothing else, and makes nothing but its map") {
  const SlotMapPtr base = slot_map_of(7, members(5), nullptr, nullptr);
  const SlotMapPtr other = slot_map_of(7, members(6), nullptr, nullptr);
  const SlotMapPtr next = slot_map_of(8, members(4), base.get(), base.get());
  const MapDelta delta = delta_of(*base, *next);
  REQUIRE(apply(delta, *base).has_value());
  CHECK(apply(delta, *other).status() == Status::invalid_state);
  CHECK(apply(delta, *next).status() == Status::invalid_state);
  const auto wrong = [&](auto change) {
    MapDelta changed = delta;
    change(changed);
    return apply(changed, *base).status();
  };
  CHECK(wrong([](MapDelta& d) { d.digest ^= 1; }) == Status::invalid_argument);
  CHECK(wrong([](MapDelta& d) { d.members[0] = 5; }) == Status::invalid_argument);
  CHECK(wrong([](MapDelta& d) { d.members[0] = kNoMember; }) == Status::invalid_argument);
  CHECK(wrong([](MapDelta& d) { d.members[0] = 1; }) == Status::invalid_argument);
  CHECK(wrong([](MapDelta& d) { d.slots[0].slot = base::kSlotCount; }) == Status::invalid_argument);
  CHECK(wrong([](MapDelta& d) { d.slots[0].owner.member = 9; }) == Status::invalid_argument);
  CHECK(wrong([](MapDelta& d) { d.slots.pop_back(); }) == Status::invalid_argument);
}

TEST_CASE("one new member of a thousand is a short message") {
  const SlotMapPtr base = slot_map_of(7, members(1000), nullptr, nullptr);
  const SlotMapPtr next = slot_map_of(8, members(1001), base.get(), base.get());
  const std::size_t whole = bytes_of(MapPush{next});
  const std::size_t delta = bytes_of(delta_of(*base, *next));
  MESSAGE("the map: " << whole << " bytes, the delta: " << delta);
  CHECK(delta * 30 < whole);
}

// What a daemon of the rig was sent, message by message.
struct Sent {
  explicit Sent(const Daemon& daemon) {
    for (const Bytes& bytes : daemon.to_member) {
      const ManagerMessage message = decode_manager_message(bytes).value();
      maps += std::holds_alternative<MapPush>(message) ? 1U : 0U;
      deltas += std::holds_alternative<MapDelta>(message) ? 1U : 0U;
    }
  }
  std::size_t maps = 0;
  std::size_t deltas = 0;
};

// A rig with a map, and one that comes now, so that another map is made.
struct Scene {
  Scene() {
    for (std::uint64_t i = 0; i < 4; ++i) rig.add("s" + std::to_string(i), i + 1);
    rig.run(2 * kNsPerSecond);
    REQUIRE(rig.everybody_has_the_map());
    first = rig.epoch();
  }
  // Runs until another map has been pushed, which `a` has not read.
  void change() {
    a.frozen = true;
    rig.add("new", 99);
    for (int turn = 0; turn < 100 && rig.epoch() == first; ++turn) rig.run(10 * kNsPerMs);
    REQUIRE(rig.epoch() > first);
  }

  Rig rig;
  Daemon& a = rig.add("a", 50);
  base::Epoch first = 0;
};

TEST_CASE("who has the map before is sent the difference, everybody else the map") {
  Scene scene;
  Daemon& old_release = scene.rig.add("old", 60);
  old_release.features = 0;
  scene.rig.run(kNsPerSecond);
  scene.first = scene.rig.epoch();
  old_release.frozen = true;
  scene.change();
  CHECK(Sent(scene.a).deltas == 1);
  CHECK(Sent(scene.a).maps == 0);
  CHECK(Sent(old_release).deltas == 0);
  CHECK(Sent(old_release).maps == 1);
  scene.a.frozen = old_release.frozen = false;
  scene.rig.run(50 * kNsPerMs);
  CHECK(scene.rig.everybody_has_the_map());
  CHECK(*scene.a.maps.back() == *scene.rig.manager->map());
}

TEST_CASE("a delta that was lost is noticed, and the whole map comes") {
  Scene scene;
  scene.change();
  REQUIRE(Sent(scene.a).deltas == 1);
  scene.a.to_member.clear();
  scene.a.frozen = false;
  SUBCASE("by the next heartbeats") {
    scene.rig.run(600 * kNsPerMs);
    CHECK(scene.rig.everybody_has_the_map());
  }
  SUBCASE("by the next delta, at once") {
    // Its base has never come.
    scene.first = scene.rig.epoch();
    scene.rig.daemons[1]->member.drain();
    for (int turn = 0; turn < 20 && scene.rig.epoch() == scene.first; ++turn) {
      scene.rig.run(10 * kNsPerMs);
    }
    REQUIRE(scene.rig.epoch() > scene.first);
    scene.rig.run(30 * kNsPerMs);
    CHECK(scene.rig.everybody_has_the_map());
  }
}

TEST_CASE("a daemon that asks for the whole map again and again gets it once in a while") {
  Scene scene;
  scene.change();
  scene.a.to_member.clear();
  Heartbeat asking;
  asking.map_epoch = scene.first;
  asking.wants_map = true;
  const Bytes bytes = encode(MemberMessage(asking)).value();
  for (int i = 0; i < 10; ++i) scene.rig.manager->on_message(scene.a.connection, bytes);
  CHECK(Sent(scene.a).maps == 1);
  CHECK(Sent(scene.a).deltas == 0);
}

TEST_CASE("a daemon that comes back with the map before is sent the difference") {
  Scene scene;
  scene.change();
  scene.rig.hang_up(scene.a);
  scene.a.frozen = false;
  scene.rig.run(40 * kNsPerMs);
  CHECK(scene.rig.everybody_has_the_map());
  CHECK(*scene.a.maps.back() == *scene.rig.manager->map());
}

}  // namespace map_delta_test
