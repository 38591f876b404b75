// Slots that a server loses and gets back.
#include <string>
#include <vector>

#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {

namespace slots {

base::Slot slot_of(ServerFixture& f, const std::string& key) {
  return base::slot_of(f.request(ipc::Opcode::exists, {key})->pages[0].group);
}

void set_slot(ServerFixture& f, const std::string& key, bool owned) {
  base::SlotSet set;
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot)
    set[slot] = f.map.owns(static_cast<base::Slot>(slot));
  set[slot_of(f, key)] = owned;
  f.map.advance(f.map.epoch + 1, set, true);
  f.server->use_map(f.map);
}

std::unique_ptr<Exchange> ask(ServerFixture& f, ipc::Opcode opcode, std::vector<std::string> keys,
                              base::Epoch epoch) {
  auto e = f.request(opcode, std::move(keys), {100}, 7);
  if (opcode != ipc::Opcode::get && opcode != ipc::Opcode::put) {
    for (auto& page : e->pages) page.slice = {};
  }
  e->incoming.header.epoch = epoch;
  return f.run(std::move(e));
}

}  // namespace slots

TEST_CASE("an object of a lost slot is missed before it is dropped, and then it is dropped") {
  ServerFixture f;
  f.put({"a", "b"}, {100}, 1);
  slots::set_slot(f, "a", false);
  const base::Epoch epoch = f.map.epoch;
  for (const ipc::Opcode opcode :
       {ipc::Opcode::get, ipc::Opcode::exists, ipc::Opcode::remove, ipc::Opcode::put}) {
    auto e = f.request(opcode, {"a", "b"}, {100}, 1);
    e->incoming.header.epoch = epoch;
    f.server->on_request(e->incoming);
    f.settle();
    REQUIRE(e->replied);
    CHECK(e->replies[0].status == Status::wrong_epoch);
    CHECK(e->replies[1].status == Status::ok);
  }
  CHECK(f.server->has_dropped_lost_slots());
  CHECK(f.store->stats().disowned == 1);
}

TEST_CASE("an object of a slot that was lost and came back is not served, not even once") {
  ServerFixture f;
  f.put({"a"}, {100}, 1);
  slots::set_slot(f, "a", false);
  slots::set_slot(f, "a", true);  // no turn in between: it still lies there
  CHECK(f.store->stats().objects == 1);
  SUBCASE("exists") {
    auto e = f.request(ipc::Opcode::exists, {"a"});
    e->incoming.header.epoch = f.map.epoch;
    f.server->on_request(e->incoming);
    CHECK(e->replies[0].status == Status::not_found);
  }
  SUBCASE("get") {
    auto e = f.request(ipc::Opcode::get, {"a"}, {100});
    e->incoming.header.epoch = f.map.epoch;
    CHECK(f.run(std::move(e))->replies[0].status == Status::not_found);
  }
  SUBCASE("a put that wants it absent stores its own") {
    CHECK(slots::ask(f, ipc::Opcode::put, {"a"}, f.map.epoch)->replies[0].status == Status::ok);
    auto e = slots::ask(f, ipc::Opcode::get, {"a"}, f.map.epoch);
    REQUIRE(e->replies[0].status == Status::ok);
    CHECK(e->buffers[0][0] == std::byte{7});
  }
  CHECK(f.store->stats().disowned == 1);
}

TEST_CASE("slots are dropped in turns of bounded work, and what stays is never touched") {
  ServerFixture f(1 << 20);
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back("key" + std::to_string(i));
  f.put(keys, {64}, 1);
  base::SlotSet kept;
  std::size_t stay = 0;
  for (const std::string& key : keys) kept[slots::slot_of(f, key)] = key.back() < '3';
  for (const std::string& key : keys) stay += kept[slots::slot_of(f, key)] ? 1u : 0u;
  f.map.advance(f.map.epoch + 1, kept, true);
  f.server->use_map(f.map);
  CHECK(f.store->stats().objects == 1000);
  int turns = 0;
  for (std::uint64_t before = 1000; !f.server->has_dropped_lost_slots(); ++turns) {
    CHECK(f.server->do_work() > 0);
    const std::uint64_t left = f.store->stats().objects;
    CHECK(before - left <= 64);
    before = left;
  }
  CHECK(turns > 10);
  CHECK(f.store->stats().objects == stay);
  CHECK(f.store->stats().lost_in_lease[static_cast<std::size_t>(store::LeaseLoss::slot_lost)] == 0);
}

TEST_CASE("a lease that ends with its slot is counted") {
  ServerFixture f;
  f.put({"a"}, {100}, 1);
  CHECK(f.get({"a"}, {100})->replies[0].status == Status::ok);
  slots::set_slot(f, "a", false);
  f.settle();
  CHECK(f.store->stats().lost_in_lease[static_cast<std::size_t>(store::LeaseLoss::slot_lost)] == 1);
}

TEST_CASE("an asker with an older map is served where nothing has changed since") {
  ServerFixture f;
  f.put({"a", "b"}, {100}, 1);
  slots::set_slot(f, "b", false);
  slots::set_slot(f, "b", true);
  const auto e = slots::ask(f, ipc::Opcode::get, {"a", "b"}, ServerFixture::kEpoch);
  CHECK(e->replies[0].status == Status::ok);
  CHECK(e->replies[1].status == Status::wrong_epoch);
  const auto before = slots::ask(f, ipc::Opcode::exists, {"a"}, ServerFixture::kEpoch - 1);
  CHECK(before->replies[0].status == Status::wrong_epoch);
}

TEST_CASE("an asker with a newer map waits until the server has it") {
  ServerFixture f;
  f.put({"a"}, {100}, 1);
  for (const ipc::Opcode opcode :
       {ipc::Opcode::get, ipc::Opcode::exists, ipc::Opcode::remove, ipc::Opcode::put}) {
    CHECK(slots::ask(f, opcode, {"a"}, f.map.epoch + 1)->replies[0].status == Status::wrong_epoch);
  }
  CHECK(f.get({"a"}, {100})->replies[0].status == Status::ok);
}

TEST_CASE("a put under way is published when its slot has stayed, under any newer map") {
  ServerFixture f;
  auto put = f.request(ipc::Opcode::put, {"a", "b"}, {100}, 1);
  f.server->on_request(put->incoming);
  f.server->do_work();
  REQUIRE(f.responder.moves.size() == 2);
  slots::set_slot(f, "b", false);
  f.settle();
  REQUIRE(put->replied);
  CHECK(put->replies[0].status == Status::ok);
  CHECK(put->replies[1].status == Status::wrong_epoch);
  CHECK(f.store->stats().objects == 1);
}

TEST_CASE("a map that is older than the last one changes nothing") {
  ServerFixture f;
  f.put({"a"}, {100}, 1);
  base::SlotOwnership older;
  older.epoch = ServerFixture::kEpoch - 1;
  f.server->use_map(older);
  CHECK(f.get({"a"}, {100})->replies[0].status == Status::ok);
}

TEST_CASE("ownership after a map that was missed begins anew") {
  base::SlotOwnership map;
  base::SlotSet owned;
  owned[5] = owned[6] = true;
  map.advance(3, owned, false);
  owned[6] = false;
  map.advance(4, owned, true);
  CHECK(map.since[5] == 3);
  CHECK_FALSE(map.owns(6));
  map.advance(6, owned, false);
  CHECK(map.since[5] == 6);
  CHECK(map.owns_since(5, 7));
  CHECK_FALSE(map.owns_since(5, 5));
}

}  // namespace simm::server::testing
