// Objects of an earlier life of the process, as a server serves them.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "scripted_responder.h"

namespace simm::server::testing {

namespace recovered_test {

// A server whose store can be made anew over the same memory.
struct Restarted : ServerFixture {
  Restarted() {
    table_bytes = store::Store::table_bytes_for(quiet(), arena.size());
    table.reset(static_cast<std::byte*>(std::aligned_alloc(4096, table_bytes)));
    std::memset(table.get(), 0, table_bytes);
    start(store::Contents::fresh);
    put({"a", "b"}, {1000}, 1);
    start(store::Contents::kept);
  }
  ~Restarted() {
    const char* wrong = store->audit();
    CHECK_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
    server.reset();
    store.reset();
    // The fixture looks at its store once more.
    store = std::move(*store::Store::create(quiet(), arena));
  }
  // `since`: from which epoch on the server's first map gives it its slots.
  void start(store::Contents contents, base::Epoch since = kEpoch) {
    server.reset();
    ServerConfig config = verifying();
    config.verify = base::VerifyMode::never;
    config.verify_ranged_bytes_max = 100;
    store::ShardMemory memory{arena, {table.get(), table_bytes}, contents, 1, clock.now_ns()};
    auto made = store::Store::create(quiet(), memory);
    REQUIRE(made.has_value());
    store = std::move(*made);
    const std::string name = "server" + std::to_string(++starts);
    server = std::make_unique<Server>(config, *store, clock, ServerCounters(counters, name));
    own_all(kEpoch + 1, since);
  }
  std::unique_ptr<Exchange> get_part(std::size_t offset, std::size_t length) {
    auto e = request(ipc::Opcode::get, {"a"}, {length}, 0xee);
    e->pages[0].object_offset = offset;
    e->incoming.header.ranged = true;
    return run(std::move(e));
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t table_bytes = 0;
  std::unique_ptr<std::byte, Free> table;
  int starts = 0;
};

}  // namespace recovered_test

using recovered_test::Restarted;

TEST_CASE("a server whose store is still recovered answers unreachable, and touches nothing") {
  Restarted f;
  std::atomic<bool> recovered{false};
  f.server->close_until(recovered, f.map.epoch);
  const std::uint64_t reads = f.store->stats().reads;
  const auto status_of = [&](ipc::Opcode opcode, const char* key) {
    auto e = f.request(opcode, {key}, {1000}, 7);
    e->incoming.header.epoch = f.map.epoch;
    return f.run(std::move(e))->replies.at(0).status;
  };
  // A map that takes a slot away comes meanwhile.
  const auto b = f.request(ipc::Opcode::exists, {"b"});
  f.map.since[base::slot_of(b->pages[0].group)] = 0;
  ++f.map.epoch;
  f.server->use_map(f.map);
  for (const ipc::Opcode opcode : {ipc::Opcode::get, ipc::Opcode::exists, ipc::Opcode::put,
                                   ipc::Opcode::remove, ipc::Opcode::pin, ipc::Opcode::unpin}) {
    CHECK(status_of(opcode, "a") == Status::unreachable);
  }
  CHECK(f.counted("server2.recovering_pages") == 6);
  CHECK(f.server->next_deadline_ns() == base::kNoDeadline);
  CHECK_FALSE(f.server->has_dropped_lost_slots());
  CHECK(f.store->stats().reads == reads);
  CHECK(f.store->stats().objects == 2);

  recovered = true;
  CHECK(status_of(ipc::Opcode::get, "a") == Status::ok);
  CHECK(status_of(ipc::Opcode::get, "b") == Status::wrong_epoch);
  CHECK(f.server->has_dropped_lost_slots());
  CHECK(f.store->stats().disowned == 1);
}

TEST_CASE("what is kept twice is removed by nobody who does not know the first map of this life") {
  Restarted f;
  const transport::RequestHeader names = f.request(ipc::Opcode::get, {"a"})->incoming.header;
  ServerConfig config = Restarted::verifying();
  bool is_kept_twice = false;
  SUBCASE("twice") {
    is_kept_twice = true;
    config.replicated = base::ReplicatedNamespaces({{names.tenant, names.name_space}});
  }
  SUBCASE("once") {}
  const std::atomic<bool> recovered{true};
  f.server = std::make_unique<Server>(config, *f.store, f.clock);
  f.server->close_until(recovered, f.map.epoch);
  f.server->use_map(f.map);
  const auto remove = [&](const char* key, base::Epoch epoch) {
    auto e = f.request(ipc::Opcode::remove, {key});
    e->incoming.header.epoch = epoch;
    return f.run(std::move(e))->replies.at(0).status;
  };
  CHECK(remove("a", f.map.epoch - 1) == (is_kept_twice ? Status::wrong_epoch : Status::ok));
  CHECK(remove("b", f.map.epoch) == Status::ok);
}

TEST_CASE("what came back is compared with its digest once, whatever the policy says") {
  Restarted f;
  CHECK(f.store->stats().unverified == 2);
  SUBCASE("whole") {
    for (int i = 0; i < 3; ++i) {
      CHECK(f.get({"a"}, {1000})->replies[0].status == Status::ok);
      CHECK(f.counted("server2.verified") == 1);
    }
  }
  SUBCASE("a part of it, although it is longer than what is hashed for a part") {
    for (int i = 0; i < 3; ++i) {
      CHECK(f.get_part(10, 100)->replies[0].status == Status::ok);
      CHECK(f.counted("server2.verified") == 1);
    }
  }
  CHECK(f.store->stats().unverified == 1);
}

TEST_CASE("what came back with other bytes is never served") {
  Restarted f;
  for (std::byte& byte : f.arena) byte ^= std::byte{1};
  SUBCASE("whole") {
    CHECK(f.get({"a"}, {1000})->replies[0].status == Status::corrupt);
  }
  SUBCASE("a part of it") {
    CHECK(f.get_part(10, 100)->replies[0].status == Status::corrupt);
  }
  CHECK(f.get({"a"}, {1000})->replies[0].status == Status::not_found);
  CHECK(f.store->stats().quarantined == 1);
  CHECK(f.store->stats().unverified == 1);
}

TEST_CASE("what came back under a slot that was lost meanwhile is missed at once") {
  Restarted f;
  f.own_all(ServerFixture::kEpoch + 5, ServerFixture::kEpoch + 4);
  auto asked = f.request(ipc::Opcode::exists, {"a", "b"});
  asked->incoming.header.epoch = ServerFixture::kEpoch + 5;
  asked = f.run(std::move(asked));
  CHECK(asked->replies[0].status == Status::not_found);
  CHECK(asked->replies[1].status == Status::not_found);
}

TEST_CASE("objects of slots that were somebody else's meanwhile are not served by the first map") {
  recovered_test::Restarted f;
  f.start(store::Contents::kept, ServerFixture::kEpoch + 1);
  for (const ipc::Opcode opcode : {ipc::Opcode::exists, ipc::Opcode::get}) {
    auto e = f.request(opcode, {"a"}, {1000}, 0xee);
    if (opcode == ipc::Opcode::exists) e->pages[0].slice = {};
    e->incoming.header.epoch = ServerFixture::kEpoch + 1;
    CHECK(f.run(std::move(e))->replies[0].status == Status::not_found);
  }
  CHECK(f.store->stats().disowned == 2);
}

}  // namespace simm::server::testing
