// Which mirrors are refilled, along rows of maps of a cluster that keeps objects twice.
#include "daemon/cluster/refill_book.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/replica.h"
#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace refill_book_test {

using namespace cluster_samples;

SlotMapPtr next_map(const SlotMapPtr& map, std::vector<MapMember> list) {
  return build_slot_map(map->epoch() + 1, std::move(list), map.get(), map.get(), {}, map->digest(),
                        Mirrors::apart)
      .value();
}

SlotMapPtr first_map(std::vector<MapMember> list) {
  return build_slot_map(1, std::move(list), nullptr, nullptr, {}, 0, Mirrors::apart).value();
}

std::vector<MapMember> without(std::vector<MapMember> list, const std::string& name) {
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const MapMember& each) { return each.identity.name == name; }),
             list.end());
  return list;
}

// The same daemon once more.
std::vector<MapMember> restarted(std::vector<MapMember> list, const std::string& name,
                                 std::uint64_t number) {
  for (MapMember& each : list) {
    if (each.identity.name == name) each.identity.incarnation = incarnation(number);
  }
  return list;
}

bool is_of(const SlotMap& map, base::Slot slot, const Incarnation& who) {
  const MapMember* const owner = map.owner_of(slot);
  return owner != nullptr && owner->identity.incarnation == who;
}

// Slots of `self` whose mirror was `former`'s and is somebody else's now.
std::vector<base::Slot> orphans(const SlotMap& before, const SlotMap& now, const Incarnation& self,
                                const Incarnation& former) {
  std::vector<base::Slot> slots;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const base::Slot mirror = base::mirror_of(slot);
    if (!is_of(now, slot, self)) continue;
    // What it gets only now has objects if these can come from the owner before.
    const MapMember* const owner = before.owner_of(slot);
    if (owner == nullptr || !now.find(owner->identity.incarnation)) continue;
    if (!is_of(before, mirror, former) || is_of(now, mirror, self)) continue;
    slots.push_back(slot);
  }
  return slots;
}

std::unique_ptr<base::SlotDepartures> all_of(const RefillBook& book) {
  return book.of_shard(0, 1);
}

const Incarnation kSelf = incarnation(1);

}  // namespace refill_book_test

TEST_CASE("an owner is gone: the owners of the mirrors of its slots refill the new owners") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(4));
  const SlotMapPtr two = next_map(one, without(members(4), "s2"));
  RefillBook book(kSelf);
  CHECK_FALSE(book.use(*one, nullptr));
  CHECK(book.slots() == 0);
  CHECK(book.of_shard(0, 2) == nullptr);
  CHECK(book.use(*two, one.get()));
  const auto expected = orphans(*one, *two, kSelf, incarnation(3));
  REQUIRE(expected.size() > 500);
  CHECK(book.slots() == expected.size());
  const auto all = all_of(book);
  for (const base::Slot slot : expected) {
    REQUIRE(all->since[slot] == (is_of(*one, slot, kSelf) ? 1 : 2));
    REQUIRE(all->next[slot] == 2);
  }
  CHECK(book.has_target(*two, incarnation(2)));
  CHECK(book.has_target(*two, incarnation(4)));
  CHECK_FALSE(book.has_target(*two, incarnation(3)));
  CHECK_FALSE(book.has_target(*two, kSelf));
  // Each shard has its own part.
  std::uint32_t of_shards = 0;
  for (std::uint16_t shard = 0; shard < 3; ++shard) {
    const auto part = book.of_shard(shard, 3);
    REQUIRE(part != nullptr);
    of_shards += part->slots;
    for (const base::Slot slot : expected) CHECK(part->departs(slot) == (slot % 3 == shard));
  }
  CHECK(of_shards == book.slots());
  book.clear();
  CHECK(book.slots() == 0);
  CHECK_FALSE(book.has_target(*two, incarnation(2)));
}

TEST_CASE("together, the owners that are left refill every pair that has lost one copy") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(5));
  const SlotMapPtr two = next_map(one, without(members(5), "s0"));
  std::uint32_t slots = 0;
  for (std::uint64_t who = 2; who <= 5; ++who) {
    RefillBook book(incarnation(who));
    book.use(*two, one.get());
    slots += book.slots();
  }
  // And a few that parting has moved.
  std::uint32_t lost = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    lost += is_of(*one, static_cast<base::Slot>(i), incarnation(1)) ? 1u : 0u;
  }
  CHECK(slots <= lost + lost / 20);
  CHECK(slots >= lost - lost / 20);
}

TEST_CASE("an owner that comes back as another process is refilled: its memory is empty") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(4));
  const SlotMapPtr two = next_map(one, restarted(members(4), "s2", 33));
  RefillBook book(kSelf);
  CHECK(book.use(*two, one.get()));
  CHECK(book.slots() == orphans(*one, *two, kSelf, incarnation(3)).size());
  CHECK(book.slots() > 500);
  CHECK(book.has_target(*two, incarnation(33)));
  CHECK_FALSE(book.has_target(*two, incarnation(2)));
  // That one knows nothing of the maps before.
  RefillBook own(incarnation(33));
  CHECK_FALSE(own.use(*two, nullptr));
  // Nor does it send what it does not have, when a daemon tells it the map before.
  RefillBook told(incarnation(33));
  CHECK_FALSE(told.use(*two, one.get()));
}

TEST_CASE("an owner that hands slots over, and is there still, sends its objects itself") {
  // What comes here with a slot is offered once more: its copies may not have been given away yet.
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(4));
  auto list = members(4);
  SUBCASE("to a joiner") {
    list = members(5);
  }
  SUBCASE("because its weight is another") {
    list[2].weight_bytes = kGiB / 8;
  }
  SUBCASE("to nobody") {
    list[2].address = "10.0.0.9";
  }
  const SlotMapPtr two = next_map(one, list);
  RefillBook book(kSelf);
  book.use(*two, one.get());
  const auto all = all_of(book);
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const bool comes_in = is_of(*two, slot, kSelf) && two->since(slot) == 2;
    REQUIRE((all != nullptr && all->departs(slot)) == comes_in);
    if (comes_in) REQUIRE(all->next[slot] == two->since(base::mirror_of(slot)));
  }
}

TEST_CASE("maps were missed: what is known to be gone is refilled, into the tenure of now") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(5));
  const SlotMapPtr two = next_map(one, without(members(5), "s2"));
  const SlotMapPtr three = next_map(two, without(without(members(5), "s2"), "s3"));
  RefillBook book(kSelf);
  CHECK(book.use(*three, one.get()));
  const auto all = all_of(book);
  std::uint32_t refilled = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const base::Slot mirror = base::mirror_of(slot);
    const bool is_mine = is_of(*three, slot, kSelf);
    const MapMember* const owner = one->owner_of(slot);
    const bool has_objects = owner != nullptr && three->find(owner->identity.incarnation);
    const bool was_gone =
        is_of(*one, mirror, incarnation(3)) || is_of(*one, mirror, incarnation(4));
    const bool comes_in = three->since(slot) > 1;
    const bool is_refilled =
        is_mine && has_objects && (was_gone || comes_in) && !is_of(*three, mirror, kSelf);
    REQUIRE(all->departs(slot) == is_refilled);
    if (!is_refilled) continue;
    ++refilled;
    REQUIRE(all->next[slot] == three->since(mirror));
  }
  CHECK(refilled > 1'000);
}

TEST_CASE("a slot of an owner who is gone has nothing to give, whoever has it now") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(4));
  const SlotMapPtr two = next_map(one, without(members(4), "s2"));
  const SlotMapPtr three = next_map(two, without(without(members(4), "s2"), "s3"));
  RefillBook book(kSelf);
  book.use(*two, one.get());
  book.use(*three, two.get());
  const auto all = all_of(book);
  REQUIRE(all != nullptr);
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    if (!all->departs(slot)) continue;
    REQUIRE(is_of(*three, slot, kSelf));
    REQUIRE_FALSE(is_of(*three, base::mirror_of(slot), kSelf));
    REQUIRE(all->since[slot] == three->since(slot));
    REQUIRE(all->next[slot] == three->since(base::mirror_of(slot)));
    // It was this daemon's before the mirror's owner was, or its owner until then is there still.
    if (all->since[slot] < all->next[slot]) continue;
    REQUIRE(three->find(two->owner_of(slot)->identity.incarnation));
  }
}

TEST_CASE("a refill goes on over maps that leave both slots alone") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(4));
  const auto three_left = without(members(4), "s2");
  const SlotMapPtr two = next_map(one, three_left);
  RefillBook book(kSelf);
  book.use(*two, one.get());
  const std::uint32_t slots = book.slots();
  auto moved = three_left;
  moved[1].address = "10.0.0.8";
  const SlotMapPtr three = next_map(two, moved);
  CHECK_FALSE(book.use(*three, two.get()));
  CHECK(book.slots() == slots);
  // Also over one that was missed.
  const SlotMapPtr five = next_map(next_map(three, three_left), moved);
  CHECK_FALSE(book.use(*five, three.get()));
  CHECK(book.slots() == slots);
}

TEST_CASE("a slot that this daemon loses is not refilled from here") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(4));
  const auto three_left = without(members(4), "s2");
  const SlotMapPtr two = next_map(one, three_left);
  RefillBook book(kSelf);
  book.use(*two, one.get());
  SUBCASE("all of them") {
    const SlotMapPtr three = next_map(two, without(three_left, "s0"));
    CHECK_FALSE(book.use(*three, two.get()));
    CHECK(book.slots() == 0);
    CHECK(book.of_shard(0, 1) == nullptr);
  }
  SUBCASE("some of them") {
    auto list = three_left;
    list[0].weight_bytes = kGiB / 4;
    const SlotMapPtr three = next_map(two, list);
    const std::uint32_t slots = book.slots();
    book.use(*three, two.get());
    CHECK(book.slots() < slots);
    CHECK(book.slots() > 0);
    const auto all = all_of(book);
    for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
      const auto slot = static_cast<base::Slot>(i);
      if (all->departs(slot)) REQUIRE(is_of(*three, slot, kSelf));
    }
  }
}

TEST_CASE("the mirror moves on before it is refilled: the refill goes to whoever has it then") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(4));
  const SlotMapPtr two = next_map(one, without(members(4), "s2"));
  RefillBook book(kSelf);
  book.use(*two, one.get());
  const std::uint32_t slots = book.slots();
  // The dead daemon is started again, and gets back what it had.
  const SlotMapPtr three = next_map(two, restarted(members(4), "s2", 33));
  CHECK(book.use(*three, two.get()));
  std::uint32_t kept = 0;
  std::uint32_t turned = 0;
  const auto all = all_of(book);
  REQUIRE(all != nullptr);
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    if (!all->departs(slot)) continue;
    ++kept;
    REQUIRE(is_of(*three, slot, kSelf));
    REQUIRE(all->next[slot] == three->since(base::mirror_of(slot)));
    turned += is_of(*three, base::mirror_of(slot), incarnation(33)) ? 1u : 0u;
  }
  CHECK(turned > 300);
  CHECK(kept > slots * 8 / 10);
}

TEST_CASE("one daemon had single copies: both owners give copies, when there are two again") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(2));
  const SlotMapPtr two = next_map(one, members(1));
  RefillBook book(kSelf);
  CHECK_FALSE(book.use(*two, one.get()));
  CHECK(book.slots() == 0);
  // A second daemon gets slots with their objects from here, and copies of what stays.
  const SlotMapPtr three = next_map(two, members(2));
  CHECK(book.use(*three, two.get()));
  CHECK(book.slots() == base::kSlotCount / 2);
  // What has come to that one lacks copies here. So this daemon takes them into its own tenure.
  CHECK(three->members()[0].back_since == 3);
  RefillBook joiner(incarnation(2));
  CHECK(joiner.use(*three, two.get()));
  CHECK(joiner.slots() == base::kSlotCount / 2);
  const auto given = all_of(joiner);
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    if (!given->departs(slot)) continue;
    REQUIRE(given->since[slot] == 3);
    REQUIRE(given->next[slot] == 3);
    REQUIRE(three->since(base::mirror_of(slot)) < 3);
  }
}

TEST_CASE("one daemon had single copies, and two join at once: whatever leaves it gets copies") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(1));
  const SlotMapPtr two = next_map(one, members(3));
  std::uint32_t pairs = 0;
  std::vector<std::unique_ptr<base::SlotDepartures>> given;
  for (std::uint64_t who = 1; who <= 3; ++who) {
    RefillBook book(incarnation(who));
    book.use(*two, one.get());
    given.push_back(all_of(book));
    REQUIRE(given.back() != nullptr);
  }
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const MemberIndex owner = two->owner(slot);
    if (owner == two->owner(base::mirror_of(slot))) continue;
    ++pairs;
    REQUIRE(given[owner]->departs(slot));
  }
  CHECK(pairs > base::kSlotCount * 9 / 10);
}

TEST_CASE("an owner that was away is back: what was put meanwhile is given to it") {
  using namespace refill_book_test;
  const SlotMapPtr one = first_map(members(4));
  auto list = members(4);
  list[2].back_since = 2;
  const SlotMapPtr two = next_map(one, list);
  RefillBook book(kSelf);
  CHECK(book.use(*two, one.get()));
  const auto all = all_of(book);
  std::uint32_t pairs = 0;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    const bool is_pair =
        is_of(*two, slot, kSelf) && is_of(*two, base::mirror_of(slot), incarnation(3));
    REQUIRE(all->departs(slot) == is_pair);
    if (!is_pair) continue;
    ++pairs;
    REQUIRE(all->since[slot] == 1);
    REQUIRE(all->next[slot] == 2);
  }
  CHECK(pairs > 500);
  CHECK(book.has_target(*two, incarnation(3)));
  // The next maps say so, too, and it begins once.
  CHECK_FALSE(book.use(*next_map(two, list), two.get()));
  book.clear();
  const SlotMapPtr four = next_map(next_map(two, list), list);
  CHECK_FALSE(book.use(*four, two.get()));
  CHECK(book.slots() == 0);
  // It is away once more.
  list[2].back_since = 5;
  CHECK(book.use(*next_map(four, list), four.get()));
  CHECK(book.slots() == pairs);
}

TEST_CASE("another process with the objects of the last one goes on from its last map") {
  using namespace refill_book_test;
  auto list = members(4);
  list[2].back_since = 7;
  const SlotMapPtr seven =
      build_slot_map(7, list, first_map(members(4)).get(), nullptr, {}, 0, Mirrors::apart).value();
  RefillBook missed(kSelf, 6);
  CHECK(missed.use(*seven, nullptr));
  CHECK(missed.slots() > 500);
  RefillBook known(kSelf, 7);
  CHECK_FALSE(known.use(*seven, nullptr));
  RefillBook empty(kSelf);
  CHECK_FALSE(empty.use(*seven, nullptr));
}
