// Two owners of slots and a mover between them: production engine, transport, servers and stores.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/base/manual_clock.h"
#include "daemon/moves/slot_mover.h"
#include "daemon/transport/local/local_mesh.h"
#include "daemon/transport/region_mover.h"
#include "tests/unit/daemon/moves/owners.h"

namespace {

using namespace moves_world;

class World {
public:
  explicit World(moves::MoverConfig config = quick(), std::uint64_t new_arena_bytes = 1 << 20)
      : former(clock, 1 << 20),
        next(clock, new_arena_bytes),
        mesh({}, clock, {{nullptr, &movers[0]}, {nullptr, &movers[1]}}),
        gate(mesh.requester(0)),
        engine(engine_config(), clock, hasher, placement, gate),
        mover(config, *former.store, *former.server, engine, clock,
              moves::MoverCounters(counters, "moves")) {
    mesh.requester(0).connect(engine, nullptr);
    mesh.responder(1).connect(*next.server);
    former.own_all(kBefore, kBefore);
  }

  static moves::MoverConfig quick() {
    moves::MoverConfig config;
    config.bytes_per_s = std::uint64_t{1} << 40;
    config.window_ns = 30 * base::kNsPerSecond;
    return config;
  }
  static engine::EngineConfig engine_config() {
    engine::EngineConfig config;
    config.operations = moves::SlotMover::kOperationsMax + 8;
    config.requests = 4 * config.operations;
    config.fetches = moves::SlotMover::kOperationsMax;
    return config;
  }

  store::ObjectKey key_of(const std::string& name, std::uint64_t tenant = 1) {
    const auto scope = hasher.scope({tenant}, {1});
    return {engine::PageHasher::key_hash(scope, name),
            engine::PageHasher::group_hash(scope, name),
            {tenant},
            {1},
            name};
  }
  void put(Owner& owner, const std::string& name, std::uint8_t fill, std::uint32_t depth = 1,
           std::uint64_t length = 1'000, base::Epoch epoch = kBefore, base::TimeNs ttl_ns = 0,
           std::uint64_t tenant = 1) {
    store::WriteRequest write;
    write.key = key_of(name, tenant);
    write.length = length;
    write.mode = ipc::PutMode::replace;
    write.depth = depth;
    write.ttl_ns = ttl_ns;
    const auto result = owner.store->begin_write(write, clock.now_ns());
    REQUIRE(result.start == store::WriteStart::reserved);
    std::memset(result.reservation.extent.data(), fill, length);
    owner.store->publish(result.reservation,
                         base::payload_digest(result.reservation.extent.data(), length), epoch,
                         clock.now_ns());
  }
  // Its first byte; -1: it is not there.
  int look(Owner& owner, const std::string& name, std::uint64_t tenant = 1) {
    store::ReadPin pin;
    if (owner.store->begin_read(key_of(name, tenant), store::kNoLease, clock.now_ns(), pin) !=
        Status::ok) {
      return -1;
    }
    CHECK(base::payload_digest(pin.bytes.data(), pin.bytes.size()) == pin.digest);
    const int first = std::to_integer<int>(pin.bytes[0]);
    owner.store->end_read(pin);
    return first;
  }

  void begin_move(base::Epoch since = kBefore) {
    next.own_all(kAfter, kAfter);
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      departures->begin(static_cast<base::Slot>(slot), since, kAfter);
    }
    former.own_all(kAfter, 0, departures.get());
    mover.on_map();
  }
  // One turn of everything; true: something was done.
  bool turn() {
    int work = former.server->do_work();
    if (!is_former_stopped) work += mover.do_work();
    work += engine.do_work();
    work += mesh.responder(1).do_work() + next.server->do_work() + mesh.responder(1).run_moves();
    clock.advance_ns(step_ns);
    return work > 0;
  }
  void run_until(const std::function<bool()>& done) {
    for (int turns = 0; turns < 1'000'000 && !done(); ++turns) turn();
    CHECK(done());
  }
  void finish() {
    run_until([&] { return !mover.is_busy() && former.server->has_dropped_lost_slots(); });
  }
  std::uint64_t counted(const char* name) const {
    return counters.value("moves." + std::string(name));
  }

  base::ManualClock clock{1000 * base::kNsPerSecond};
  base::TimeNs step_ns = base::kNsPerMs / 100;
  bool is_former_stopped = false;  // its mover; its engine is that of clients as well
  base::CounterSet counters;
  engine::PageHasher hasher{kSeed};
  ToNewOwner placement;
  std::unique_ptr<base::SlotDepartures> departures = std::make_unique<base::SlotDepartures>();
  Owner former;
  Owner next;
  transport::RegionMover movers[2];
  transport::LocalMesh mesh;
  Gate gate;
  engine::Engine engine;
  moves::SlotMover mover;
};

// A client of the new owner.
class Reader final : public engine::OperationEvents {
public:
  explicit Reader(World& world) : world_(world) {
    region_.base = bytes.data();
    region_.length = bytes.size();
    region_.can_fault = false;
  }
  void ask(ipc::Opcode opcode, const std::vector<std::string>& names,
           base::TimeNs time_ns = 10 * base::kNsPerSecond) {
    engine::Operation* const operation = world_.engine.allocate();
    REQUIRE(operation != nullptr);
    operation->header.opcode = opcode;
    operation->header.tenant = {1};
    operation->header.name_space = {1};
    operation->header.deadline_ns = world_.clock.now_ns() + time_ns;
    operation->owner = this;
    for (const std::string& name : names) {
      const std::uint32_t at = operation->page_count++;
      char* const key = operation->key_bytes.data() + 64 * at;
      std::memcpy(key, name.data(), name.size());
      transport::PageRequest page;
      page.key = key;
      page.key_bytes = static_cast<std::uint32_t>(name.size());
      page.index = static_cast<std::uint16_t>(at);
      if (opcode == ipc::Opcode::get) page.slice = {&region_, at * kSliceBytes, kSliceBytes};
      operation->pages[at] = page;
    }
    is_done = false;
    world_.engine.submit(*operation);
  }
  void on_complete(engine::Operation& operation) noexcept override {
    is_done = true;
    ended_ns = world_.clock.now_ns();
    replies.assign(operation.replies.begin(), operation.replies.begin() + operation.page_count);
  }
  int first_byte(std::size_t page) const { return std::to_integer<int>(bytes[page * kSliceBytes]); }

  static constexpr std::size_t kSliceBytes = 8'192;
  bool is_done = true;
  base::TimeNs ended_ns = 0;
  std::vector<transport::PageReply> replies;
  std::vector<std::byte> bytes = std::vector<std::byte>(8 * kSliceBytes);

private:
  World& world_;
  memory::Region region_;
};

std::string name_of(int number) {
  return "key" + std::to_string(number);
}

}  // namespace

TEST_CASE("all objects of lost slots are with the new owner, byte for byte, and gone here") {
  World w;
  for (int i = 0; i < 200; ++i) {
    w.put(w.former, name_of(i), static_cast<std::uint8_t>(i), 1,
          static_cast<std::uint64_t>(100 + 20 * i), kBefore, 0,
          static_cast<std::uint64_t>(1 + i % 3));
  }
  w.begin_move();
  CHECK(w.counted("departing_slots") == base::kSlotCount);
  w.finish();
  for (int i = 0; i < 200; ++i) {
    CHECK(w.look(w.next, name_of(i), static_cast<std::uint64_t>(1 + i % 3)) == i);
  }
  CHECK(w.former.store->objects() == 0);
  CHECK(w.counted("objects") == 200);
  CHECK(w.counted("refused") == 0);
  CHECK(w.counted("departing_slots") == 0);
  CHECK(w.former.store->audit() == nullptr);
  CHECK(w.next.store->audit() == nullptr);
}

TEST_CASE("an object with a long key moves like any other") {
  World w;
  const std::string name(900, 'k');
  w.put(w.former, name, 9);
  w.begin_move();
  w.finish();
  CHECK(w.look(w.next, name) == 9);
}

TEST_CASE("objects of an earlier tenure, and those whose TTL ends soon, do not move") {
  World w;
  w.put(w.former, "old", 1, 1, 1'000, kBefore - 1);
  w.put(w.former, "short", 2, 1, 1'000, kBefore, 4 * base::kNsPerSecond);
  w.put(w.former, "ours", 3);
  w.begin_move();
  w.finish();
  CHECK(w.look(w.next, "old") == -1);
  CHECK(w.look(w.next, "short") == -1);
  CHECK(w.look(w.next, "ours") == 3);
  CHECK(w.former.store->objects() == 0);
}

TEST_CASE("what is left of a TTL moves with its object") {
  World w;
  w.step_ns = base::kNsPerMs;
  constexpr base::TimeNs kTtls[] = {20 * base::kNsPerSecond, 100 * base::kNsPerSecond,
                                    3'600 * base::kNsPerSecond};
  for (std::size_t i = 0; i < std::size(kTtls); ++i) {
    w.put(w.former, "ttl" + std::to_string(i), 1, 1, 1'000, kBefore, kTtls[i]);
  }
  w.put(w.former, "for ever", 2);
  const base::TimeNs put_ns = w.clock.now_ns();
  w.clock.advance_ns(10 * base::kNsPerSecond);
  w.begin_move();
  w.finish();
  CHECK(w.counted("objects") == std::size(kTtls) + 1);
  const auto pass = [&](base::TimeNs until_ns) {
    w.clock.advance_ns(until_ns - w.clock.now_ns());
    while (w.next.server->do_work() > 0) {
    }
  };
  for (std::size_t i = 0; i < std::size(kTtls); ++i) {
    CAPTURE(i);
    const std::string name = "ttl" + std::to_string(i);
    const base::TimeNs left_ns = kTtls[i] - 10 * base::kNsPerSecond;
    // Some seconds, and one of sixteen steps, are lost.
    const base::TimeNs kept_ns = (left_ns - 5 * base::kNsPerSecond) * 15 / 16;
    pass(put_ns + 10 * base::kNsPerSecond + kept_ns);
    CHECK(w.look(w.next, name) == 1);
    pass(put_ns + kTtls[i]);
    CHECK(w.look(w.next, name) == -1);
  }
  CHECK(w.look(w.next, "for ever") == 2);
}

TEST_CASE("a copy that comes as late as it can does not outlive its object") {
  moves::MoverConfig config = World::quick();
  World w(config);
  const moves::TimeToLive time_to_live(config.offer_ns, config.grace_ns);
  const base::TimeNs now_ns = w.clock.now_ns();
  const base::TimeNs latest_ns = now_ns + 2 * config.offer_ns + config.grace_ns;
  CHECK(time_to_live.left_ms(0, now_ns) == 0);
  for (base::TimeNs left_ns = 1; left_ns < 100 * base::kNsPerSecond; left_ns += left_ns / 7 + 1) {
    const base::TimeNs expires_ns = time_to_live.needed_until_ns(now_ns) + left_ns;
    const base::TimeNs ttl_ns = time_to_live.left_ms(expires_ns, now_ns) * base::kNsPerMs;
    CAPTURE(left_ns);
    REQUIRE(ttl_ns > 0);  // 0 would be no limit
    REQUIRE(latest_ns + ttl_ns <= expires_ns);
    REQUIRE(ttl_ns + base::kNsPerMs > left_ns * 15 / 16);
  }
}

TEST_CASE("heads go before tails") {
  moves::MoverConfig config = World::quick();
  config.batch_bytes_max = 1'000;
  World w(config);
  for (int i = 0; i < 40; ++i) {
    w.put(w.former, name_of(i), 1, i % 2 == 0 ? 1 : 2'000);  // tails lie between the heads
  }
  w.begin_move();
  w.run_until([&] { return w.counted("objects") >= 20; });
  CHECK(w.counted("objects") == 20);
  for (int i = 0; i < 40; ++i) CHECK((w.look(w.next, name_of(i)) == 1) == (i % 2 == 0));
  w.finish();
  CHECK(w.counted("objects") == 40);
}

TEST_CASE("of the heads, and of the tails, what was used since its put goes first") {
  moves::MoverConfig config = World::quick();
  config.batch_bytes_max = 1'000;
  World w(config);
  const auto is_head = [](int i) { return i % 2 == 0; };
  const auto is_used = [](int i) { return i % 4 >= 2; };
  for (int i = 0; i < 40; ++i) w.put(w.former, name_of(i), 1, is_head(i) ? 1 : 2'000);
  w.clock.advance_ns(100 * base::kNsPerSecond);
  for (int i = 0; i < 40; ++i) {
    if (is_used(i)) w.former.store->touch(w.key_of(name_of(i)), store::kNoLease, w.clock.now_ns());
  }
  w.begin_move();
  std::vector<int> arrived;
  w.run_until([&] {
    for (int i = 0; i < 40; ++i) {
      const bool is_new = std::find(arrived.begin(), arrived.end(), i) == arrived.end();
      if (is_new && w.look(w.next, name_of(i)) == 1) arrived.push_back(i);
    }
    return arrived.size() == 40;
  });
  for (std::size_t at = 0; at < 40; ++at) {
    CHECK(is_head(arrived[at]) == (at < 20));
    CHECK(is_used(arrived[at]) == (at / 10 % 2 == 0));
  }
  w.finish();
}

TEST_CASE("what the new owner has of its own stays, and is not asked for again") {
  World w;
  w.put(w.former, "a", 1);
  w.put(w.former, "b", 1);
  w.next.own_all(kAfter, kAfter);
  w.put(w.next, "a", 2, 1, 500, kAfter);
  w.begin_move();
  w.finish();
  CHECK(w.look(w.next, "a") == 2);
  CHECK(w.look(w.next, "b") == 1);
}

TEST_CASE("a full new owner makes room for what moves, and an object that is too long is dropped") {
  World w(World::quick(), 8'192);
  for (int i = 0; i < 4; ++i) w.put(w.former, name_of(i), 1, 1, 1'024);
  w.put(w.former, "long", 1, 1, 16'384);
  w.next.own_all(kAfter, kAfter);
  for (int i = 0; i < 8; ++i) {
    w.put(w.next, "other" + std::to_string(i), 2, 1, 1'024, kAfter);
  }
  w.begin_move();
  w.finish();
  CHECK(w.counted("objects") == 4);
  CHECK(w.counted("refused") == 1);
  for (int i = 0; i < 4; ++i) CHECK(w.look(w.next, name_of(i)) == 1);
  CHECK(w.former.store->objects() == 0);
  CHECK(w.next.store->stats().evicted > 0);
}

TEST_CASE("a slot that comes back shows nothing of before") {
  World w;
  w.put(w.former, "a", 1);
  w.gate.is_open = false;
  w.begin_move();
  for (int i = 0; i < 100; ++i) w.turn();
  CHECK(w.former.store->objects() == 1);
  w.former.own_all(kAfter + 1, kAfter + 1);
  w.mover.on_map();
  CHECK_FALSE(w.mover.is_busy());
  CHECK(w.look(w.former, "a") == -1);
  w.gate.is_open = true;
  w.finish();
  CHECK(w.look(w.next, "a") == -1);
}

TEST_CASE("a slot that is lost once more is not asked for by the owner before the last") {
  World w;
  w.put(w.former, "a", 1);
  w.gate.is_open = false;
  w.begin_move();
  for (int i = 0; i < 10; ++i) w.turn();
  w.gate.is_open = true;
  // The new owner lost it and has it again: another tenure.
  w.next.own_all(kAfter + 2, kAfter + 2);
  w.finish();
  CHECK(w.look(w.next, "a") == -1);
  CHECK(w.counted("refused") == 1);
}

TEST_CASE("who can not be reached is asked again, and the move goes on") {
  World w;
  for (int i = 0; i < 50; ++i) w.put(w.former, name_of(i), 1);
  w.gate.is_open = false;
  w.begin_move();
  w.run_until([&] { return w.counted("failed") > 0; });
  w.gate.is_open = true;
  w.finish();
  CHECK(w.counted("objects") == 50);
  CHECK(w.counted("cold_slots") == 0);
}

TEST_CASE("who can never be reached gets nothing: the move ends, and drops what is left") {
  moves::MoverConfig config = World::quick();
  SUBCASE("after some rounds") {
    config.window_ns = 1'000 * base::kNsPerSecond;
  }
  SUBCASE("with the window") {
    config.vain_rounds_max = ~0u;
  }
  World w(config);
  w.step_ns = 1 * base::kNsPerMs;
  w.put(w.former, "a", 1);
  w.gate.is_open = false;
  w.begin_move();
  w.finish();
  CHECK(w.counted("objects") == 0);
  CHECK(w.counted("cold_slots") == base::kSlotCount);
  CHECK(w.former.store->objects() == 0);
}

TEST_CASE("no more bytes go in a second than were given") {
  moves::MoverConfig config = World::quick();
  config.bytes_per_s = 1'000'000;
  config.batch_bytes_max = 10'000;
  World w(config);
  for (int i = 0; i < 200; ++i) w.put(w.former, name_of(i), 1, 1, 5'000);
  w.step_ns = base::kNsPerMs / 10;
  w.begin_move();
  const base::TimeNs begun_ns = w.clock.now_ns();
  w.finish();
  const base::TimeNs took_ns = w.clock.now_ns() - begun_ns;
  CHECK(w.counted("bytes") == 1'000'000);
  CHECK(took_ns > 900 * base::kNsPerMs);
  CHECK(took_ns < 1'500 * base::kNsPerMs);
}

TEST_CASE("what clients of the new owner wait for goes before all others") {
  moves::MoverConfig config = World::quick();
  config.bytes_per_s = 1'000'000;
  config.batch_bytes_max = 10'000;
  World w(config);
  for (int i = 0; i < 200; ++i) w.put(w.former, name_of(i), static_cast<std::uint8_t>(i), 1, 5'000);
  w.next.map->has_former_owners = true;
  w.begin_move();
  const base::TimeNs begun_ns = w.clock.now_ns();
  Reader early(w);
  Reader gets(w);
  Reader looks(w);
  // Before anything is told, and then.
  early.ask(ipc::Opcode::get, {name_of(199), "nothing"});
  w.run_until([&] { return early.is_done; });
  CHECK(early.replies[0].status == Status::ok);
  CHECK(early.first_byte(0) == 199);
  CHECK(early.replies[1].status == Status::not_found);
  CHECK(w.counted("told") == 200);
  gets.ask(ipc::Opcode::get, {name_of(150), name_of(198), name_of(151)});
  looks.ask(ipc::Opcode::exists, {name_of(152), "nothing", name_of(153)});
  w.run_until([&] { return gets.is_done && looks.is_done; });
  for (const transport::PageReply& reply : gets.replies) CHECK(reply.status == Status::ok);
  CHECK(gets.first_byte(0) == 150);
  CHECK(gets.first_byte(1) == 198);
  CHECK(gets.first_byte(2) == 151);
  CHECK(looks.replies[0].bytes == 5'000);
  CHECK(looks.replies[1].status == Status::not_found);
  CHECK(looks.replies[2].bytes == 5'000);
  CHECK(gets.ended_ns - begun_ns < 100 * base::kNsPerMs);
  CHECK(w.counted("objects") < 100);
  CHECK(w.counted("wanted") > 0);
  CHECK(w.counted("wanted") <= 6);
  // The bounded rate is paid for by those that nobody waits for.
  w.finish();
  CHECK(w.counted("objects") == 200);
  CHECK(w.clock.now_ns() - begun_ns > 900 * base::kNsPerMs);
  CHECK(w.next.counters.value("server.read_through_late") == 0);
  CHECK(w.next.counters.value("server.read_through_misses") == 0);
}

TEST_CASE("objects of many tenants that are waited for come each to their own") {
  moves::MoverConfig config = World::quick();
  config.bytes_per_s = 100'000;
  World w(config);
  for (int i = 0; i < 60; ++i) {
    w.put(w.former, name_of(i), static_cast<std::uint8_t>(i), 1, 5'000, kBefore, 0,
          static_cast<std::uint64_t>(1 + i % 3));
  }
  w.next.map->has_former_owners = true;
  w.begin_move();
  Reader reader(w);
  for (int round = 0; round < 3; ++round) {
    // Of these the first tenant has every third.
    reader.ask(ipc::Opcode::get, {name_of(45 + round), name_of(48 + round), name_of(51 + round)});
    w.run_until([&] { return reader.is_done; });
    for (const transport::PageReply& reply : reader.replies) {
      CHECK(reply.status == (round == 0 ? Status::ok : Status::not_found));
    }
  }
  w.finish();
  CHECK(w.next.store->objects() == 60);
}

TEST_CASE("an owner before that can not be reached makes a wait a miss, and no more than that") {
  moves::MoverConfig config = World::quick();
  config.bytes_per_s = 100'000;
  World w(config);
  for (int i = 0; i < 40; ++i) w.put(w.former, name_of(i), 1, 1, 5'000);
  w.begin_move();
  w.run_until([&] { return w.counted("told") == 40; });
  for (int turns = 0; turns < 50; ++turns) w.turn();
  // A second client of the new owner has another way there.
  Reader reader(w);
  reader.ask(ipc::Opcode::get, {name_of(39)}, 400 * base::kNsPerMs);
  w.engine.do_work();
  w.mesh.responder(1).do_work();
  w.is_former_stopped = true;
  const base::TimeNs begun_ns = w.clock.now_ns();
  w.run_until([&] { return reader.is_done; });
  CHECK(reader.replies[0].status == Status::not_found);
  CHECK(reader.ended_ns - begun_ns < 400 * base::kNsPerMs);
  w.is_former_stopped = false;
  w.finish();
  CHECK(w.look(w.next, name_of(39)) == 1);
}
