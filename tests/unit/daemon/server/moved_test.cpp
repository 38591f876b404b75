// Objects that the former owner of a slot sends, seen by the new owner's server.
#include <string>
#include <vector>

#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {

namespace moved {

ServerConfig config() {
  ServerConfig config = ServerFixture::verifying();
  config.arrival_window_ns = 60 * base::kNsPerSecond;
  config.arrival_keys_max = 8;
  return config;
}

// A put that is moved, with its true digest.
std::unique_ptr<Exchange> request(ServerFixture& f, const std::string& key, std::uint8_t fill,
                                  base::Epoch into = ServerFixture::kEpoch) {
  auto e = f.request(ipc::Opcode::put, {key}, {100}, fill);
  e->incoming.header.is_moved = true;
  e->incoming.header.epoch = into;
  e->pages[0].digest = base::payload_digest(e->buffers[0].data(), e->buffers[0].size());
  return e;
}

Status move_in(ServerFixture& f, const std::string& key, std::uint8_t fill,
               base::Epoch into = ServerFixture::kEpoch) {
  return f.run(request(f, key, fill, into))->replies[0].status;
}

Status look(ServerFixture& f, const std::string& key, std::uint8_t fill) {
  auto e = f.request(ipc::Opcode::get, {key}, {100}, 0xee);
  e->incoming.header.epoch = f.map.epoch;
  e = f.run(std::move(e));
  if (e->replies[0].status == Status::ok) CHECK(e->buffers[0][0] == std::byte{fill});
  return e->replies[0].status;
}

}  // namespace moved

TEST_CASE("an object that moved is a hit, and counts for its tenant") {
  ServerFixture f(64 * 1024, moved::config());
  CHECK(moved::move_in(f, "a", 5) == Status::ok);
  CHECK(moved::look(f, "a", 5) == Status::ok);
  CHECK(f.counted("server.moved_in_objects") == 1);
  CHECK(f.counted("server.moved_in_bytes") == 100);
  CHECK(f.counted("server.put_pages") == 0);
  auto table = f.store->tenant_table();
  f.store->tell_tenants(table);
  REQUIRE(table.count == 1);
  CHECK(table.rows[0].tally.objects == 1);
}

TEST_CASE("a removed key does not come back") {
  ServerFixture f(64 * 1024, moved::config());
  SUBCASE("that was not there yet") {}
  SUBCASE("that had moved") {
    CHECK(moved::move_in(f, "a", 5) == Status::ok);
  }
  (void)f.run(f.request(ipc::Opcode::remove, {"a"}));
  CHECK(moved::move_in(f, "a", 5) == Status::invalid_state);
  CHECK(moved::look(f, "a", 5) == Status::not_found);
}

TEST_CASE("a remove by who does not know whom copies are sent to is refused") {
  ServerConfig config = moved::config();
  const transport::RequestHeader names =
      ServerFixture(64 * 1024).request(ipc::Opcode::get, {"a"})->incoming.header;
  config.replicated = base::ReplicatedNamespaces({{names.tenant, names.name_space}});
  ServerFixture f(64 * 1024, config);
  const auto put = [&](const std::string& key) {
    CHECK(f.run(f.request(ipc::Opcode::put, {key}, {100}, 5))->replies[0].status == Status::ok);
  };
  put("a");
  put("b");
  f.map.epoch = ServerFixture::kEpoch + 2;
  f.server->use_map(f.map);
  const auto refills = std::make_unique<base::SlotDepartures>();
  const auto a = f.request(ipc::Opcode::remove, {"a"});
  refills->begin(base::slot_of(a->pages[0].group), ServerFixture::kEpoch,
                 ServerFixture::kEpoch + 2);
  f.server->note_refills(*refills);
  const auto remove = [&](const std::string& key, base::Epoch epoch) {
    auto asked = f.request(ipc::Opcode::remove, {key});
    asked->incoming.header.epoch = epoch;
    return f.run(std::move(asked))->replies[0].status;
  };
  CHECK(remove("a", ServerFixture::kEpoch + 1) == Status::wrong_epoch);
  CHECK(moved::look(f, "a", 5) == Status::ok);
  CHECK(remove("a", ServerFixture::kEpoch + 2) == Status::ok);
  CHECK(remove("b", ServerFixture::kEpoch + 1) == Status::ok);  // nobody is given that one
}

TEST_CASE("a key that is removed while its object is on the way does not come back") {
  ServerFixture f(64 * 1024, moved::config());
  auto e = moved::request(f, "a", 5);
  f.server->on_request(e->incoming);
  f.server->do_work();
  REQUIRE(f.responder.moves.size() == 1);
  auto removal = f.request(ipc::Opcode::remove, {"a"});
  f.server->on_request(removal->incoming);
  f.settle();
  CHECK(e->replies[0].status == Status::invalid_state);
  CHECK(moved::look(f, "a", 5) == Status::not_found);
}

TEST_CASE("what was put since is never replaced by what moves, also when it has gone again") {
  ServerFixture f(64 * 1024, moved::config());
  f.put({"a"}, {100}, 7);
  CHECK(moved::move_in(f, "a", 5) == Status::invalid_state);
  CHECK(moved::look(f, "a", 7) == Status::ok);
  auto ttl = f.request(ipc::Opcode::put, {"b"}, {100}, 7);
  ttl->incoming.header.ttl_ms = 10;
  CHECK(f.run(std::move(ttl))->replies[0].status == Status::ok);
  f.clock.advance_ns(20 * base::kNsPerMs);
  CHECK(moved::move_in(f, "b", 5) == Status::invalid_state);
  CHECK(moved::look(f, "b", 5) == Status::not_found);
}

TEST_CASE("an object is taken into the tenure that it was sent for alone") {
  ServerFixture f(64 * 1024, moved::config());
  f.own_all(ServerFixture::kEpoch + 2);
  CHECK(moved::move_in(f, "a", 5, ServerFixture::kEpoch) == Status::invalid_state);
  CHECK(moved::move_in(f, "a", 5, ServerFixture::kEpoch + 1) == Status::invalid_state);
  CHECK(moved::look(f, "a", 5) == Status::not_found);
  // Also when the slot is lost while the bytes are on the way.
  auto e = moved::request(f, "a", 5, ServerFixture::kEpoch + 2);
  f.server->on_request(e->incoming);
  f.server->do_work();
  f.own_all(ServerFixture::kEpoch + 3);
  f.settle();
  CHECK(e->replies[0].status == Status::invalid_state);
  CHECK(moved::look(f, "a", 5) == Status::not_found);
  // A map that the server does not have yet: ask again.
  CHECK(moved::move_in(f, "a", 5, ServerFixture::kEpoch + 4) == Status::wrong_epoch);
}

TEST_CASE("bytes that are not those of the put are not taken") {
  ServerFixture f(64 * 1024, moved::config());
  auto e = moved::request(f, "a", 5);
  e->buffers[0][17] ^= std::byte{1};
  CHECK(f.run(std::move(e))->replies[0].status == Status::corrupt);
  CHECK(moved::look(f, "a", 5) == Status::not_found);
  CHECK(f.counted("server.moved_in_refused") == 1);
}

TEST_CASE("a full owner makes room for what moves, as it does for a put") {
  store::StoreConfig quota = ServerFixture::quiet();
  ServerFixture f(1024, moved::config(), quota);
  for (int i = 0; i < 8; ++i) f.put({"k" + std::to_string(i)}, {128}, 1);
  CHECK(moved::move_in(f, "a", 5) == Status::ok);
  CHECK(moved::look(f, "a", 5) == Status::ok);
  CHECK(f.store->stats().evicted > 0);
}

TEST_CASE("a slot with more writes than can be remembered takes nothing, and nothing wrong") {
  ServerFixture f(64 * 1024, moved::config());
  std::vector<std::string> keys;
  for (int i = 0; i < 9; ++i) keys.push_back("k" + std::to_string(i));
  (void)f.run(f.request(ipc::Opcode::remove, keys));
  CHECK(f.counted("server.arrivals_ended") == 1);
  for (const std::string& key : keys) CHECK(moved::move_in(f, key, 5) == Status::invalid_state);
}

TEST_CASE("a moved put that replaces, and a get that is moved, are nothing that anybody sends") {
  ServerFixture f(64 * 1024, moved::config());
  auto e = moved::request(f, "a", 5);
  e->incoming.header.put_mode = ipc::PutMode::replace;
  CHECK(f.run(std::move(e))->replies[0].status == Status::invalid_argument);
}

}  // namespace simm::server::testing
