// A daemon that keeps slots, the new owner of their mirrors, and a mover of second copies between
// them: production engine, transport, servers and stores.
#include "daemon/moves/replica_mover.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "daemon/base/hash.h"
#include "daemon/transport/local/local_mesh.h"
#include "daemon/transport/region_mover.h"
#include "tests/unit/daemon/moves/owners.h"

namespace replica_mover_test {

using namespace moves_world;

// A use so long after a put is one of its own.
constexpr base::TimeNs kLaterNs = 100 * base::kNsPerSecond;
constexpr base::NamespaceId kTwice{1};
constexpr base::NamespaceId kOnce{2};

base::ReplicatedNamespaces replicated() {
  return base::ReplicatedNamespaces({{{1}, kTwice}, {{3}, kTwice}});
}

// An object: by the name of its namespace, or by that of its replica.
struct Name {
  std::string key;
  bool is_replica = false;
  std::uint64_t tenant = 1;
  base::NamespaceId name_space = kTwice;
};

class World : public engine::OperationEvents {
public:
  explicit World(moves::MoverConfig config = quick(), std::uint64_t new_arena_bytes = 1 << 20)
      : keeper(clock, 1 << 20),
        next(clock, new_arena_bytes, replicated()),
        mesh({}, clock, {{nullptr, &movers[0]}, {nullptr, &movers[1]}}),
        gate(mesh.requester(0)),
        engine(engine_config(), clock, hasher, placement, gate),
        mover(config, replicated(), *keeper.store, *keeper.server, engine, clock,
              moves::RefillCounters(counters, "refills")) {
    mesh.requester(0).connect(engine, nullptr);
    mesh.responder(1).connect(*next.server);
    keeper.own_all(kBefore, kBefore);
  }
  static moves::MoverConfig quick() {
    moves::MoverConfig config;
    config.bytes_per_s = std::uint64_t{1} << 40;
    config.window_ns = 30 * base::kNsPerSecond;
    return config;
  }
  // With so many bytes in a second, in small messages.
  static moves::MoverConfig slow(std::uint64_t bytes_per_s) {
    moves::MoverConfig config = quick();
    config.bytes_per_s = bytes_per_s;
    config.batch_bytes_max = 1'000;
    return config;
  }
  static engine::EngineConfig engine_config() {
    engine::EngineConfig config;
    config.fetches = moves::ReplicaMover::kBatchesMax;
    config.operations = config.fetches + 8;
    config.requests = 4 * config.operations;
    return config;
  }

  store::ObjectKey key_of(const Name& name) const {
    const auto scope = hasher.scope({name.tenant}, name.name_space);
    store::ObjectKey key{engine::PageHasher::key_hash(scope, name.key),
                         engine::PageHasher::group_hash(scope, name.key),
                         {name.tenant},
                         name.name_space,
                         name.key};
    if (!name.is_replica) return key;
    key.hash = base::replica_of(key.hash);
    key.group = base::mirrored_group(key.group);
    key.name_space = base::replica_of(key.name_space);
    return key;
  }
  void put(Owner& owner, const Name& name, std::uint8_t fill, std::uint64_t length = 1'000,
           base::Epoch epoch = kBefore, base::TimeNs ttl_ns = 0) {
    store::WriteRequest write;
    write.key = key_of(name);
    write.length = length;
    write.mode = ipc::PutMode::replace;
    write.ttl_ns = ttl_ns;
    const auto result = owner.store->begin_write(write, clock.now_ns());
    REQUIRE(result.start == store::WriteStart::reserved);
    std::memset(result.reservation.extent.data(), fill, length);
    owner.store->publish(result.reservation,
                         base::payload_digest(result.reservation.extent.data(), length), epoch,
                         clock.now_ns());
  }
  // Its first byte, with its length in front; -1: it is not there.
  int look(Owner& owner, const Name& name) {
    store::ReadPin pin;
    const store::ObjectKey key = key_of(name);
    if (owner.store->begin_read(key, store::kNoLease, clock.now_ns(), pin) != Status::ok) return -1;
    CHECK(base::payload_digest(pin.bytes.data(), pin.bytes.size()) == pin.digest);
    const int first = std::to_integer<int>(pin.bytes[0]);
    for (const std::byte each : pin.bytes) REQUIRE(std::to_integer<int>(each) == first);
    last_length = pin.bytes.size();
    owner.store->end_read(pin);
    return first;
  }
  // A client of the keeper uses it.
  void use(const Name& name) { keeper.store->touch(key_of(name), store::kNoLease, clock.now_ns()); }
  // A client of the new owner removes it.
  void remove_at_next(const Name& name) {
    engine::Operation* const operation = engine.allocate();
    REQUIRE(operation != nullptr);
    const store::ObjectKey key = key_of(name);
    operation->header.opcode = ipc::Opcode::remove;
    operation->header.tenant = key.tenant;
    operation->header.name_space = key.name_space;
    operation->header.deadline_ns = clock.now_ns() + base::kNsPerSecond;
    operation->owner = this;
    operation->has_hashes = true;
    operation->page_count = 1;
    std::memcpy(operation->key_bytes.data(), name.key.data(), name.key.size());
    operation->pages[0] = {};
    operation->pages[0].key = operation->key_bytes.data();
    operation->pages[0].key_bytes = static_cast<std::uint32_t>(name.key.size());
    operation->pages[0].hash = key.hash;
    operation->pages[0].group = key.group;
    removed = 0;
    engine.submit(*operation);
    run_until([&] { return removed == 1; });
  }
  void on_complete(engine::Operation&) noexcept override { ++removed; }

  // The owner of all mirrors is another one from the epoch `into` on, and has nothing.
  void begin(base::Epoch into = kAfter, base::Epoch since = kBefore) {
    next.own_all(into, into);
    keeper.own_all(into, kBefore);
    placement.at = into;
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      refills->begin(static_cast<base::Slot>(slot), since, into);
    }
    mover.on_map(refills.get());
  }
  // One turn of everything; true: something was done.
  bool turn() {
    int work = keeper.server->do_work() + mover.do_work() + engine.do_work();
    work += mesh.responder(1).do_work() + next.server->do_work() + mesh.responder(1).run_moves();
    if (work == 0) CHECK(mover.next_deadline_ns() > clock.now_ns());
    clock.advance_ns(step_ns);
    return work > 0;
  }
  void run_until(const std::function<bool()>& done) {
    for (int turns = 0; turns < 1'000'000 && !done(); ++turns) turn();
    REQUIRE(done());
  }
  void finish() {
    run_until([&] { return counted("slots") == 0; });
    for (int turns = 0; turns < 100; ++turns) turn();
    CHECK(mover.next_deadline_ns() == base::kNoDeadline);
    CHECK(keeper.store->audit() == nullptr);
    CHECK(next.store->audit() == nullptr);
  }
  std::uint64_t counted(const char* name) const {
    return counters.value("refills." + std::string(name));
  }

  base::ManualClock clock{1000 * base::kNsPerSecond};
  base::TimeNs step_ns = base::kNsPerMs / 100;
  base::CounterSet counters;
  engine::PageHasher hasher{kSeed};
  ToNewOwner placement;
  std::unique_ptr<base::SlotDepartures> refills = std::make_unique<base::SlotDepartures>();
  Owner keeper;
  Owner next;
  transport::RegionMover movers[2];
  transport::LocalMesh mesh;
  Gate gate;
  engine::Engine engine;
  moves::ReplicaMover mover;
  std::uint64_t last_length = 0;
  int removed = 0;
};

Name object(int number) {
  return {"key" + std::to_string(number)};
}
Name replica(int number) {
  return {"key" + std::to_string(number), true};
}

TEST_CASE(
    "objects arrive as replicas and replicas as objects, byte for byte; nothing leaves here") {
  World w;
  const auto length = [](int i) { return 100 + 20 * static_cast<std::uint64_t>(i); };
  for (int i = 0; i < 100; ++i) {
    const auto fill = static_cast<std::uint8_t>(i);
    w.put(w.keeper, object(i), fill, length(i));
    w.put(w.keeper, replica(100 + i), static_cast<std::uint8_t>(100 + i), length(i));
    if (i >= 30) continue;
    w.put(w.keeper, {"third" + std::to_string(i), false, 3}, fill);
    // Of another namespace, and of a tenant who keeps this one once.
    w.put(w.keeper, {"once" + std::to_string(i), false, 1, kOnce}, fill);
    w.put(w.keeper, {"second" + std::to_string(i), false, 2}, fill);
  }
  w.begin();
  CHECK(w.counted("slots") == base::kSlotCount);
  w.finish();
  for (int i = 0; i < 100; ++i) {
    CHECK(w.look(w.next, replica(i)) == i);
    CHECK(w.last_length == length(i));
    CHECK(w.look(w.next, object(100 + i)) == 100 + i);
    CHECK(w.look(w.keeper, object(i)) == i);
    CHECK(w.look(w.keeper, replica(100 + i)) == 100 + i);
    if (i < 30) CHECK(w.look(w.next, {"third" + std::to_string(i), true, 3}) == i);
  }
  CHECK(w.next.store->objects() == 230);
  CHECK(w.keeper.store->objects() == 290);
  CHECK(w.counted("objects") == 230);
  CHECK(w.counted("refused") == 0);
  CHECK(w.counted("failed") == 0);
}

TEST_CASE("an object with a long key is copied like any other") {
  World w;
  const std::string key(900, 'k');
  w.put(w.keeper, {key}, 9);
  w.begin();
  w.finish();
  CHECK(w.look(w.next, {key, true}) == 9);
}

TEST_CASE("objects of an earlier tenure, and those whose TTL ends soon, are not copied") {
  World w;
  w.put(w.keeper, {"old"}, 1, 1'000, kBefore - 1);
  w.put(w.keeper, {"short"}, 2, 1'000, kBefore, 4 * base::kNsPerSecond);
  w.put(w.keeper, {"ours"}, 3);
  w.begin();
  w.finish();
  CHECK(w.next.store->objects() == 1);
  CHECK(w.look(w.next, {"ours", true}) == 3);
  CHECK(w.look(w.keeper, {"short"}) == 2);
}

TEST_CASE("a copy has what is left of its object's TTL") {
  World w;
  w.put(w.keeper, {"both"}, 2, 1'000, kBefore, 100 * base::kNsPerSecond);
  w.begin();
  w.finish();
  w.clock.advance_ns(80 * base::kNsPerSecond);
  CHECK(w.look(w.next, {"both", true}) == 2);
  w.clock.advance_ns(20 * base::kNsPerSecond);
  while (w.next.server->do_work() > 0) {
  }
  CHECK(w.look(w.next, {"both", true}) == -1);
}

TEST_CASE("what is used goes first") {
  World w(World::slow(2'000'000));
  for (int i = 0; i < 40; ++i) w.put(w.keeper, object(i), 1);
  w.clock.advance_ns(kLaterNs);
  for (int i = 1; i < 40; i += 2) w.use(object(i));
  w.begin();
  w.run_until([&] { return w.counted("objects") >= 20; });
  CHECK(w.counted("objects") == 20);
  for (int i = 0; i < 40; ++i) CHECK((w.look(w.next, replica(i)) == 1) == (i % 2 == 1));
  w.finish();
  CHECK(w.counted("objects") == 40);
}

TEST_CASE("what is used for the first time while copies are made is not passed over") {
  World w(World::slow(1'000'000));
  for (int i = 0; i < 60; ++i) w.put(w.keeper, object(i), 1);
  w.clock.advance_ns(kLaterNs);
  for (int i = 30; i < 60; ++i) w.use(object(i));
  w.begin();
  w.run_until([&] { return w.counted("objects") >= 10; });
  // The first pass is beyond them, and the second one has not begun.
  CHECK(w.counted("objects") < 25);
  w.clock.advance_ns(2 * base::kNsPerSecond);
  for (int i = 0; i < 30; ++i) w.use(object(i));
  w.finish();
  CHECK(w.counted("objects") == 60);
  for (int i = 0; i < 60; ++i) CHECK(w.look(w.next, replica(i)) == 1);
}

TEST_CASE("no more bytes go in a second than were given") {
  World w(World::slow(1'000'000));
  for (int i = 0; i < 200; ++i) w.put(w.keeper, object(i), 1, 5'000);
  w.step_ns = base::kNsPerMs / 10;
  w.begin();
  const base::TimeNs begun_ns = w.clock.now_ns();
  w.finish();
  const base::TimeNs took_ns = w.clock.now_ns() - begun_ns;
  CHECK(w.counted("bytes") == 1'000'000);
  CHECK(took_ns > 900 * base::kNsPerMs);
  CHECK(took_ns < 1'500 * base::kNsPerMs);
}

TEST_CASE("who can not be reached is asked again, and each copy is counted once") {
  World w;
  for (int i = 0; i < 50; ++i) w.put(w.keeper, object(i), static_cast<std::uint8_t>(i));
  w.clock.advance_ns(kLaterNs);
  for (int i = 0; i < 40; ++i) w.use(object(i));  // more than one message, and of both passes
  w.gate.is_open = false;
  w.begin();
  w.run_until([&] { return w.counted("failed") > 60; });
  w.gate.is_open = true;
  w.finish();
  CHECK(w.counted("objects") == 50);
  for (int i = 0; i < 50; ++i) CHECK(w.look(w.next, replica(i)) == i);
}

TEST_CASE("who can never be reached gets nothing: it ends, and here all stays as it was") {
  moves::MoverConfig config = World::quick();
  SUBCASE("after some rounds") {
    config.window_ns = 1'000 * base::kNsPerSecond;
  }
  SUBCASE("with the window") {
    config.vain_rounds_max = ~0u;
  }
  World w(config);
  w.step_ns = base::kNsPerMs;
  w.put(w.keeper, object(0), 7);
  w.gate.is_open = false;
  w.begin();
  const base::TimeNs begun_ns = w.clock.now_ns();
  w.finish();
  CHECK(w.clock.now_ns() - begun_ns < 60 * base::kNsPerSecond);
  CHECK(w.counted("objects") == 0);
  CHECK(w.look(w.keeper, object(0)) == 7);
}

TEST_CASE("the window ends in the middle: what is there stays at both, and nothing more goes") {
  moves::MoverConfig config = World::slow(100'000);
  config.window_ns = base::kNsPerSecond / 2;
  World w(config);
  for (int i = 0; i < 100; ++i) w.put(w.keeper, object(i), 1);
  w.begin();
  w.finish();
  CHECK(w.counted("objects") > 30);
  CHECK(w.counted("objects") < 70);
  CHECK(w.next.store->objects() == w.counted("objects"));
  CHECK(w.keeper.store->objects() == 100);
}

TEST_CASE("a key that is removed at the new owner does not come back") {
  World w(World::slow(100'000));
  for (int i = 0; i < 20; ++i) w.put(w.keeper, object(i), 1);
  w.begin();
  w.remove_at_next(replica(15));  // before its copy comes
  w.run_until([&] { return w.look(w.next, replica(2)) == 1; });
  w.remove_at_next(replica(2));  // after it came
  w.finish();
  CHECK(w.look(w.next, replica(15)) == -1);
  CHECK(w.look(w.next, replica(2)) == -1);
  CHECK(w.next.store->objects() == 18);
  CHECK(w.counted("refused") == 1);
}

TEST_CASE("what the new owner has already stays as it is") {
  World w;
  w.put(w.keeper, object(0), 1);
  w.next.own_all(kAfter, kAfter);
  w.put(w.next, replica(0), 2, 500, kAfter);
  w.begin();
  w.finish();
  CHECK(w.look(w.next, replica(0)) == 2);
}

TEST_CASE("the mirror is in another tenure at its owner: the copy is refused") {
  World w;
  w.put(w.keeper, object(0), 1);
  w.gate.is_open = false;
  w.begin();
  for (int turns = 0; turns < 10; ++turns) w.turn();
  w.gate.is_open = true;
  w.next.own_all(kAfter + 2, kAfter + 2);
  w.finish();
  CHECK(w.look(w.next, replica(0)) == -1);
  CHECK(w.counted("refused") == 1);
}

TEST_CASE("a full new owner makes room for second copies, as it does for a put") {
  World w(World::quick(), 4'096);
  for (int i = 0; i < 4; ++i) w.put(w.keeper, object(i), 1, 1'024);
  w.next.own_all(kAfter, kAfter);
  for (int i = 0; i < 4; ++i) {
    w.put(w.next, {"other" + std::to_string(i), false, 1, kOnce}, 2, 1'024, kAfter);
  }
  w.begin();
  w.finish();
  CHECK(w.counted("objects") == 4);
  for (int i = 0; i < 4; ++i) CHECK(w.look(w.next, replica(i)) == 1);
}

TEST_CASE("maps that bring nothing new start nothing anew, in the middle and behind the end") {
  World w(World::slow(200'000));
  for (int i = 0; i < 100; ++i) w.put(w.keeper, object(i), 1);
  w.begin();
  const base::TimeNs begun_ns = w.clock.now_ns();
  base::TimeNs told_ns = begun_ns;
  w.run_until([&] {
    if (w.counted("slots") == 0) return true;
    if (w.clock.now_ns() - told_ns > 20 * base::kNsPerMs) {
      told_ns = w.clock.now_ns();
      w.mover.on_map(w.refills.get());
    }
    return false;
  });
  CHECK(w.clock.now_ns() - begun_ns < base::kNsPerSecond);
  CHECK(w.counted("objects") == 100);
  w.mover.on_map(w.refills.get());
  CHECK(w.counted("slots") == 0);
  CHECK(w.mover.next_deadline_ns() == base::kNoDeadline);
  w.refills->end(7);
  w.mover.on_map(w.refills.get());
  CHECK(w.counted("slots") == 0);
  w.mover.on_map(nullptr);
  for (int turns = 0; turns < 100; ++turns) w.turn();
  CHECK(w.counted("objects") == 100);
  CHECK(w.counted("refused") == 0);
}

TEST_CASE("another owner of the mirrors gets all of it, also what is just under way to the last") {
  World w;
  constexpr int kMany = 150;
  for (int i = 0; i < kMany; ++i) w.put(w.keeper, object(i), 1);
  w.begin();
  w.run_until([&] { return w.counted("objects") >= 32; });
  // Two messages are out, and nobody has answered.
  for (int turns = 0; turns < 5; ++turns) {
    w.clock.advance_ns(base::kNsPerMs);
    w.mover.do_work();
    w.engine.do_work();
  }
  REQUIRE(w.engine.in_flight() == moves::ReplicaMover::kBatchesMax);
  w.begin(kAfter + 3);
  w.finish();
  CHECK(w.next.store->objects() == kMany);
  for (int i = 0; i < kMany; ++i) CHECK(w.look(w.next, replica(i)) == 1);
  // The same once more, behind the end.
  w.begin(kAfter + 6);
  CHECK(w.counted("slots") == base::kSlotCount);
  w.finish();
  CHECK(w.next.store->objects() == kMany);
  for (int i = 0; i < kMany; ++i) CHECK(w.look(w.next, replica(i)) == 1);
}

TEST_CASE("another object in the place of one that was copied is copied, too") {
  World w(World::slow(100'000));
  for (int i = 0; i < 40; ++i) w.put(w.keeper, object(i), 1);
  w.begin();
  w.gate.is_open = false;
  w.run_until([&] { return w.counted("failed") > 0; });
  w.gate.is_open = true;
  w.run_until([&] { return w.counted("objects") >= 20; });
  // Its record is free, and the next object gets that one.
  int gone = 0;
  while (gone < 40 && w.look(w.next, replica(gone)) == -1) ++gone;
  REQUIRE(gone < 40);
  CHECK(w.keeper.store->remove(w.key_of(object(gone)), w.clock.now_ns()));
  w.put(w.keeper, {"late"}, 5);
  w.finish();
  CHECK(w.look(w.next, {"late", true}) == 5);
}

TEST_CASE("no refills any more: it ends at once, with what is under way") {
  World w(World::slow(100'000));
  for (int i = 0; i < 100; ++i) w.put(w.keeper, object(i), 1);
  w.begin();
  w.run_until([&] { return w.counted("objects") > 10; });
  w.mover.on_map(nullptr);
  CHECK(w.counted("slots") == 0);
  CHECK(w.mover.next_deadline_ns() == base::kNoDeadline);
  for (int turns = 0; turns < 1'000; ++turns) w.turn();
  CHECK(w.counted("objects") < 20);
  // The pins of what was under way are gone: all memory is free again.
  for (int i = 0; i < 100; ++i) {
    CHECK(w.keeper.store->remove(w.key_of(object(i)), w.clock.now_ns()));
  }
  w.put(w.keeper, {"large"}, 3, 1'045'000);
  CHECK(w.keeper.store->audit() == nullptr);
}

TEST_CASE("a budget of less than a byte in a millisecond: it sleeps between its looks") {
  World w(World::slow(500));
  w.step_ns = base::kNsPerMs;
  w.put(w.keeper, object(0), 1);
  w.begin();
  w.finish();  // each idle turn looks at the next deadline
  CHECK(w.look(w.next, replica(0)) == 1);
}

}  // namespace replica_mover_test
