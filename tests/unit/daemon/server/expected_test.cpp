// Reads of objects that are with the former owner of their slot still, seen by the new owner's
// server: who waits, what is asked for, and what ends the wait.
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {

namespace expected {

using transport::MovedNote;

constexpr base::TimeNs kMs = base::kNsPerMs;

ServerConfig config() {
  ServerConfig config = ServerFixture::verifying();
  config.arrival_window_ns = 60 * base::kNsPerSecond;
  config.arrival_keys_max = 8;
  config.expected_objects_max = 512;
  config.requests_max = 512;
  return config;
}

// The owner of all slots since a map that follows another one.
struct NewOwner : ServerFixture {
  explicit NewOwner(ServerConfig with = config()) : ServerFixture(64 * 1024, with) {
    map.has_former_owners = true;
    own_all(kEpoch + 1);
  }
  std::unique_ptr<Exchange> ask(ipc::Opcode opcode, std::vector<std::string> keys,
                                std::uint64_t tenant = 1) {
    auto e = request(opcode, std::move(keys), {100}, 0xee, tenant);
    e->incoming.header.epoch = map.epoch;
    e->incoming.header.deadline_ns = clock.now_ns() + 10 * base::kNsPerSecond;
    return e;
  }
  std::unique_ptr<Exchange> note(MovedNote what, std::vector<std::string> keys,
                                 std::uint64_t digest, std::uint64_t tenant = 1) {
    auto e = ask(ipc::Opcode::exists, std::move(keys), tenant);
    e->incoming.header.is_moved = true;
    for (transport::PageRequest& page : e->pages) {
      page.slice = {};
      page.depth = static_cast<std::uint32_t>(what);
      page.digest = digest != 0 ? digest++ : 0;
      if (what != MovedNote::object) page.hash = {7, 0};
    }
    return e;
  }
  // Objects with names from `token` on; and that this was all of their slots.
  void tell(const std::vector<std::string>& keys, std::uint64_t token, std::uint64_t tenant = 1) {
    CHECK(run(note(MovedNote::object, keys, token, tenant))->replies[0].status == Status::ok);
    CHECK(run(note(MovedNote::slot_told, keys, 0, tenant))->replies[0].status == Status::ok);
  }
  // With room for four answers. It stays.
  std::unique_ptr<Exchange> call(std::uint64_t gone = 0) {
    auto e = note(MovedNote::call, {".", ".", ".", "."}, 0);
    e->pages[0].digest = gone;
    server->on_request(e->incoming);
    return e;
  }
  std::unique_ptr<Exchange> begin(std::unique_ptr<Exchange> e) {
    server->on_request(e->incoming);
    server->do_work();
    server->do_work();
    return e;
  }
  Status move_in(const std::string& key, std::uint8_t fill) {
    auto e = request(ipc::Opcode::put, {key}, {100}, fill);
    e->incoming.header.is_moved = true;
    e->incoming.header.epoch = map.epoch;
    e->pages[0].digest = base::payload_digest(e->buffers[0].data(), e->buffers[0].size());
    return run(std::move(e))->replies[0].status;
  }
  void pass(base::TimeNs time_ns) {
    clock.advance_ns(time_ns);
    settle();
  }
};

}  // namespace expected

using expected::kMs;
using expected::NewOwner;
using transport::MovedNote;

TEST_CASE("a get and an exists wait for an object that was told, and it is asked for once") {
  NewOwner f;
  f.tell({"a", "b"}, 41);
  auto call = f.call();
  CHECK(f.server->requests_under_way() == 1);
  auto get = f.begin(f.ask(ipc::Opcode::get, {"a"}));
  auto exists = f.begin(f.ask(ipc::Opcode::exists, {"a", "b"}));
  CHECK_FALSE(get->replied);
  CHECK_FALSE(exists->replied);
  REQUIRE(call->replied);
  CHECK(call->replies[0].bytes == 41);
  CHECK(call->replies[1].bytes == 0);
  call = f.call();
  f.server->do_work();
  REQUIRE(call->replied);
  CHECK(call->replies[0].bytes == 42);
  CHECK(call->replies[1].bytes == 0);
  CHECK(f.move_in("a", 5) == Status::ok);
  f.settle();
  REQUIRE(get->replied);
  CHECK(get->replies[0].status == Status::ok);
  CHECK(get->buffers[0][99] == std::byte{5});
  CHECK_FALSE(exists->replied);
  CHECK(f.move_in("b", 6) == Status::ok);
  f.settle();
  REQUIRE(exists->replied);
  CHECK(exists->replies[0].bytes == 100);
  CHECK(exists->replies[1].bytes == 100);
  CHECK(f.counted("server.read_through_asked") == 2);
  CHECK(f.counted("server.read_through_hits") == 3);
  CHECK(f.counted("server.read_through_misses") == 0);
  CHECK(f.server->requests_under_way() == 0);
}

TEST_CASE("all pages of a batch are asked for when it comes") {
  NewOwner f;
  f.tell({"a", "b", "c"}, 1);
  (void)f.run(f.note(MovedNote::slot_told, {"x"}, 0));
  auto call = f.call();
  auto get = f.begin(f.ask(ipc::Opcode::get, {"a", "x", "b", "c"}));
  REQUIRE(call->replied);
  CHECK(call->replies[2].bytes == 3);
  for (const char* key : {"c", "b", "a"}) CHECK(f.move_in(key, 9) == Status::ok);
  f.settle();
  REQUIRE(get->replied);
  CHECK(get->replies[0].status == Status::ok);
  CHECK(get->replies[1].status == Status::not_found);
  CHECK(get->replies[3].status == Status::ok);
}

TEST_CASE("what was not told is a miss at once, when all of its slot was told") {
  NewOwner f;
  auto early = f.begin(f.ask(ipc::Opcode::get, {"a"}));
  CHECK_FALSE(early->replied);
  CHECK(f.run(f.note(MovedNote::slot_told, {"a"}, 0))->replied);
  f.settle();
  REQUIRE(early->replied);
  CHECK(early->replies[0].status == Status::not_found);
  CHECK(f.begin(f.ask(ipc::Opcode::get, {"a"}))->replied);
  CHECK(f.counted("server.read_through_asked") == 0);
  // Of another slot nobody has said anything, but for so long only.
  auto other = f.begin(f.ask(ipc::Opcode::exists, {"b"}));
  CHECK_FALSE(other->replied);
  f.pass(expected::config().told_wait_ns);
  REQUIRE(other->replied);
  CHECK(other->replies[0].status == Status::not_found);
  CHECK(f.begin(f.ask(ipc::Opcode::get, {"c"}))->replied);
}

TEST_CASE("a map that follows no other one has no former owners to wait for") {
  NewOwner f;
  f.map.has_former_owners = false;
  f.own_all(f.map.epoch + 1);
  CHECK(f.begin(f.ask(ipc::Opcode::get, {"a"}))->replied);
}

TEST_CASE("a put is what those who wait get, and a remove makes it a miss") {
  NewOwner f;
  f.tell({"a"}, 1);
  auto get = f.begin(f.ask(ipc::Opcode::get, {"a"}));
  CHECK_FALSE(get->replied);
  SUBCASE("put") {
    auto put = f.ask(ipc::Opcode::put, {"a"});
    put->buffers[0].assign(100, std::byte{7});
    f.server->on_request(put->incoming);
    f.settle();
    CHECK(put->replies[0].status == Status::ok);
  }
  SUBCASE("remove") {
    (void)f.run(f.ask(ipc::Opcode::remove, {"a"}));
    CHECK(get->replied);
    CHECK(get->replies[0].status == Status::not_found);
  }
  CHECK(f.move_in("a", 5) == Status::invalid_state);
  // Who tells of it once more changes nothing.
  f.tell({"a"}, 1);
  auto later = f.begin(f.ask(ipc::Opcode::get, {"a"}));
  f.settle();
  REQUIRE(later->replied);
  if (later->replies[0].status == Status::ok) CHECK(later->buffers[0][0] == std::byte{7});
}

TEST_CASE("an object that has gone, or that is refused, is a miss before the deadline") {
  NewOwner f;
  f.tell({"a", "b"}, 21);
  auto get = f.begin(f.ask(ipc::Opcode::get, {"a", "b"}));
  auto call = f.call();
  f.server->do_work();
  REQUIRE(call->replied);
  call = f.call(21);
  f.settle();
  CHECK_FALSE(get->replied);
  auto damaged = f.request(ipc::Opcode::put, {"b"}, {100}, 1);
  damaged->incoming.header.is_moved = true;
  damaged->incoming.header.epoch = f.map.epoch;
  CHECK(f.run(std::move(damaged))->replies[0].status == Status::corrupt);
  REQUIRE(get->replied);
  CHECK(get->replies[0].status == Status::not_found);
  CHECK(get->replies[1].status == Status::not_found);
  CHECK(f.counted("server.read_through_misses") == 2);
  f.server->on_aborted(call->incoming);
}

TEST_CASE("an owner that does not send in time is not asked for a while") {
  NewOwner f;
  f.tell({"a", "b", "c"}, 1);
  auto get = f.begin(f.ask(ipc::Opcode::get, {"a"}));
  f.pass(expected::config().want_ns);
  REQUIRE(get->replied);
  CHECK(get->replies[0].status == Status::not_found);
  CHECK(f.counted("server.read_through_late") == 1);
  CHECK(f.begin(f.ask(ipc::Opcode::get, {"b"}))->replied);
  f.pass(expected::config().silent_ns);
  auto again = f.begin(f.ask(ipc::Opcode::get, {"b"}));
  CHECK_FALSE(again->replied);
  CHECK(f.move_in("b", 3) == Status::ok);
  f.settle();
  CHECK(again->replies[0].status == Status::ok);
  // The late one is a hit all the same when it has come.
  CHECK(f.move_in("a", 4) == Status::ok);
  CHECK(f.run(f.ask(ipc::Opcode::get, {"a"}))->replies[0].status == Status::ok);
}

TEST_CASE("nobody waits for longer than half of the time that there is") {
  NewOwner f;
  f.tell({"a"}, 1);
  auto get = f.ask(ipc::Opcode::get, {"a"});
  get->incoming.header.deadline_ns = f.clock.now_ns() + 100 * kMs;
  get = f.begin(std::move(get));
  f.pass(49 * kMs);
  CHECK_FALSE(get->replied);
  f.pass(1 * kMs);
  REQUIRE(get->replied);
  CHECK(get->replies[0].status == Status::not_found);
}

TEST_CASE("who gives up while an object is waited for hears of a miss") {
  NewOwner f;
  f.tell({"a"}, 1);
  f.put({"z"}, {100}, 1);
  auto get = f.begin(f.ask(ipc::Opcode::get, {"a", "z"}));
  f.server->on_cancel(get->incoming);
  REQUIRE(get->replied);
  CHECK(get->replies[0].status == Status::not_found);
  CHECK(get->replies[1].status == Status::cancelled);
  auto gone = f.begin(f.ask(ipc::Opcode::get, {"a"}));
  f.server->on_aborted(gone->incoming);
  CHECK(f.server->requests_under_way() == 0);
}

TEST_CASE("a slot that is lost ends the wait") {
  NewOwner f;
  f.tell({"a"}, 1);
  auto get = f.begin(f.ask(ipc::Opcode::get, {"a"}));
  f.own_all(f.map.epoch + 1);
  f.settle();
  REQUIRE(get->replied);
  CHECK(get->replies[0].status == Status::wrong_epoch);
  // What was told for the tenure before means nothing now.
  auto late = f.note(MovedNote::object, {"a"}, 1);
  late->incoming.header.epoch = f.map.epoch - 1;
  CHECK(f.run(std::move(late))->replied);
  CHECK(f.run(f.note(MovedNote::slot_told, {"a"}, 0))->replied);
  CHECK(f.begin(f.ask(ipc::Opcode::get, {"a"}))->replied);
}

TEST_CASE("a tenant that waits for many objects leaves room for those of others") {
  NewOwner f;
  std::vector<std::string> many;
  for (int i = 0; i < 300; ++i) many.push_back("k" + std::to_string(i));
  f.tell(many, 1);
  f.tell({"a"}, 1000, 2);
  auto hog = f.begin(f.ask(ipc::Opcode::exists, many));
  CHECK(f.counted("server.read_through_asked") < 210);
  auto other = f.begin(f.ask(ipc::Opcode::get, {"a"}, 2));
  const std::uint64_t asked = f.counted("server.read_through_asked");
  CHECK(asked > 200);
  CHECK(asked < 210);
  auto call = f.call();
  f.server->do_work();
  CHECK(call->replied);
  f.pass(2 * base::kNsPerSecond);
  CHECK(hog->replied);
  CHECK(other->replied);
}

TEST_CASE("no more objects are remembered than there is room for") {
  ServerConfig config = expected::config();
  config.expected_objects_max = 2;
  NewOwner f(config);
  f.tell({"a", "b", "c"}, 1);
  auto waits = f.begin(f.ask(ipc::Opcode::get, {"a"}));
  CHECK_FALSE(waits->replied);
  CHECK(f.begin(f.ask(ipc::Opcode::get, {"c"}))->replied);
  f.pass(2 * base::kNsPerSecond);
  CHECK(waits->replied);
}

TEST_CASE("a call ends by itself, by a cancel, with its path, and by the next one") {
  NewOwner f;
  auto first = f.call();
  auto second = f.call();
  CHECK(first->replied);
  CHECK(first->replies[0].bytes == 0);
  CHECK_FALSE(second->replied);
  f.server->on_cancel(second->incoming);
  CHECK(second->replied);
  auto third = f.call();
  f.pass(2 * base::kNsPerSecond);
  CHECK(third->replied);
  auto fourth = f.call();
  f.server->on_aborted(fourth->incoming);
  CHECK(f.server->requests_under_way() == 0);
}

TEST_CASE("a call in vain is no good answer") {
  NewOwner f;
  // Longer than any that is sent.
  std::vector<std::string> pages(transport::kWantsPerCallMax + 1, ".");
  CHECK(f.run(f.note(MovedNote::call, pages, 0))->replies[32].status == Status::not_found);
  // When nothing is expected any more.
  f.pass(61 * base::kNsPerSecond);
  f.pass(1 * base::kNsPerSecond);
  auto call = f.call();
  REQUIRE(call->replied);
  CHECK(call->replies[0].status == Status::not_found);
}

TEST_CASE("a moved request that is neither a put nor an exists is nothing that anybody sends") {
  NewOwner f;
  auto get = f.ask(ipc::Opcode::get, {"a"});
  get->incoming.header.is_moved = true;
  CHECK(f.run(std::move(get))->replies[0].status == Status::invalid_argument);
}

}  // namespace simm::server::testing
