// Which slots depart, along rows of maps with and without gaps.
#include <doctest/doctest.h>

#include "daemon/cluster/departure_book.h"
#include "daemon/cluster/map_delta.h"
#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace {

using namespace cluster_samples;

// The next map of a manager that knows nothing of a gap.
SlotMapPtr next_map(const SlotMapPtr& map, std::vector<MapMember> list) {
  return build_slot_map(map->epoch() + 1, std::move(list), map.get(), map.get(), {}, map->digest())
      .value();
}

SlotMapPtr first_map(std::vector<MapMember> list) {
  return build_slot_map(1, std::move(list), nullptr, nullptr).value();
}

std::uint32_t lost(const SlotMap& before, const SlotMap& now, const Incarnation& self) {
  std::uint32_t slots = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const bool was = before.owner_of(slot)->identity.incarnation == self;
    slots += was && now.owner_of(slot)->identity.incarnation != self ? 1U : 0U;
  }
  return slots;
}

}  // namespace

TEST_CASE("what a joiner gets departs, with the tenure that has ended and the one that follows") {
  const SlotMapPtr one = first_map(members(2));
  const SlotMapPtr two = next_map(one, members(3));
  DepartureBook book(incarnation(1));
  CHECK_FALSE(book.use(*one, nullptr));
  CHECK(book.use(*two, one.get()));
  CHECK(book.slots() == lost(*one, *two, incarnation(1)));
  CHECK(book.slots() > 0);
  std::uint32_t of_shards = 0;
  for (std::uint16_t shard = 0; shard < 2; ++shard) {
    const auto part = book.of_shard(shard, 2);
    REQUIRE(part != nullptr);
    of_shards += part->slots;
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      if (part->since[slot] == 0) continue;
      CHECK(slot % 2 == shard);
      CHECK(part->since[slot] == 1);
      CHECK(part->next[slot] == 2);
    }
  }
  CHECK(of_shards == book.slots());
  CHECK(book.has_target(*two, incarnation(3)));
  CHECK_FALSE(book.has_target(*two, incarnation(2)));
}

TEST_CASE("nothing departs where a map is missing, or its manager can not say what it follows") {
  const SlotMapPtr one = first_map(members(2));
  const SlotMapPtr two = next_map(one, members(3));
  const SlotMapPtr three = next_map(two, members(4));
  DepartureBook book(incarnation(1));
  SUBCASE("a map was lost") {
    book.use(*one, nullptr);
    CHECK_FALSE(book.use(*three, one.get()));
  }
  SUBCASE("another map of the same epoch") {
    const SlotMapPtr other = first_map(members(2, 2 * kGiB));
    book.use(*other, nullptr);
    CHECK_FALSE(book.use(*two, other.get()));
  }
  SUBCASE("the first map") {
    CHECK_FALSE(book.use(*two, nullptr));
  }
  SUBCASE("a manager that does not say it") {
    book.use(*one, nullptr);
    const SlotMapPtr silent =
        SlotMap::make(two->epoch(), two->members(), two->owners(), two->life()).value();
    CHECK_FALSE(book.use(*silent, one.get()));
  }
  CHECK(book.slots() == 0);
  CHECK(book.of_shard(0, 2) == nullptr);
}

TEST_CASE("a departure ends when its slot moves once more, or comes back, and only then") {
  const SlotMapPtr one = first_map(members(2));
  const SlotMapPtr two = next_map(one, members(3));
  DepartureBook book(incarnation(1));
  book.use(*one, nullptr);
  book.use(*two, one.get());
  const std::uint32_t departed = book.slots();
  SUBCASE("a map that leaves these slots alone, also one behind a gap") {
    auto moved = members(3);
    moved[1].address = "10.0.0.8";
    const SlotMapPtr three = next_map(two, moved);
    const SlotMapPtr four = next_map(three, members(3));
    CHECK_FALSE(book.use(*four, two.get()));
    CHECK(book.slots() == departed);
  }
  SUBCASE("the new owner leaves") {
    const SlotMapPtr three = next_map(two, members(2));
    CHECK_FALSE(book.use(*three, two.get()));
    CHECK(book.slots() == 0);
  }
  SUBCASE("this daemon drains: what it has now departs too, what it had stays on its way") {
    auto others = members(3);
    others.erase(others.begin());
    const SlotMapPtr three = next_map(two, others);
    CHECK(book.use(*three, two.get()));
    CHECK(book.slots() >= departed);
    CHECK(book.slots() <= base::kSlotCount);
  }
  SUBCASE("the window is over") {
    book.clear();
    CHECK(book.slots() == 0);
  }
}

TEST_CASE("a difference between two maps says what the new one follows") {
  const SlotMapPtr one = first_map(members(2));
  const SlotMapPtr two = next_map(one, members(3));
  CHECK(two->follows() == one->digest());
  const SlotMapPtr applied = apply(delta_of(*one, *two), *one).value();
  CHECK(applied->follows() == one->digest());
  CHECK(*applied == *two);
}
