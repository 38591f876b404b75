// What each page of a get or put answers.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {

namespace {

std::unique_ptr<Exchange> get_with(ServerFixture& f, std::size_t view_bytes, bool exact,
                                   std::uint64_t object_offset, bool ranged = false) {
  auto e = f.request(ipc::Opcode::get, {"a"}, {std::clamp<std::size_t>(view_bytes, 1, 4096)}, 0xee);
  e->pages[0].slice.length = view_bytes;
  e->pages[0].object_offset = object_offset;
  e->incoming.header.exact_size = exact;
  e->incoming.header.ranged = ranged;
  return f.run(std::move(e));
}

}  // namespace

TEST_CASE("a whole get wants a view that is long enough, an exact one the same length") {
  ServerFixture f;
  f.put({"a"}, {100}, 1);
  CHECK(get_with(f, 100, false, 0)->replies[0].bytes == 100);
  CHECK(get_with(f, 101, false, 0)->replies[0].bytes == 100);
  CHECK(get_with(f, 99, false, 0)->replies[0].status == Status::invalid_argument);
  CHECK(get_with(f, 0, false, 0)->replies[0].status == Status::invalid_argument);
  CHECK(get_with(f, 100, true, 0)->replies[0].status == Status::ok);
  CHECK(get_with(f, 101, true, 0)->replies[0].status == Status::size_mismatch);
  CHECK(get_with(f, 99, true, 0)->replies[0].status == Status::size_mismatch);
  CHECK(f.counted("server.size_mismatches") == 2);
}

TEST_CASE("a ranged get reads what is there of its range, an exact one all of it") {
  ServerFixture f;
  auto put = f.request(ipc::Opcode::put, {"a"}, {100});
  for (std::size_t i = 0; i < 100; ++i) put->buffers[0][i] = static_cast<std::byte>(i);
  f.run(std::move(put));
  const auto middle = get_with(f, 10, false, 50);
  CHECK(middle->replies[0].bytes == 10);
  CHECK(middle->buffers[0][0] == std::byte{50});
  CHECK(middle->buffers[0][9] == std::byte{59});
  const auto start = get_with(f, 10, false, 0, true);
  CHECK(start->replies[0].bytes == 10);
  CHECK(start->buffers[0][9] == std::byte{9});
  CHECK(get_with(f, 101, true, 0, true)->replies[0].status == Status::size_mismatch);
  const auto end = get_with(f, 200, false, 90);
  CHECK(end->replies[0].bytes == 10);
  CHECK(end->buffers[0][10] == std::byte{0xee});
  CHECK(get_with(f, 10, true, 90)->replies[0].bytes == 10);
  CHECK(get_with(f, 11, true, 90)->replies[0].status == Status::size_mismatch);
  CHECK(get_with(f, 1, false, 100)->replies[0].status == Status::invalid_argument);
  CHECK(get_with(f, 1, true, ~std::uint64_t{0})->replies[0].status == Status::size_mismatch);
  CHECK(get_with(f, ~std::size_t{0} / 4, false, ~std::uint64_t{0})->replies[0].status ==
        Status::invalid_argument);
}

TEST_CASE("values out of range are refused page by page, requests that make no sense as a whole") {
  ServerConfig config = ServerFixture::verifying();
  config.value_bytes_max = 1000;
  ServerFixture f(64 * 1024, config);
  const auto put = f.put({"a", "b", "c"}, {1001, 1000, 0}, 1);
  CHECK(put->replies[0].status == Status::invalid_argument);
  CHECK(put->replies[1].status == Status::ok);
  CHECK(put->replies[2].status == Status::invalid_argument);
  const auto refused = [&](auto&& spoil) {
    auto e = f.request(ipc::Opcode::put, {"x", "y"}, {10, 10});
    spoil(*e);
    e = f.run(std::move(e));
    return e->replied && (e->replies.empty() || e->replies[0].status == Status::invalid_argument);
  };
  CHECK(refused([](Exchange& e) { e.incoming.header.opcode = ipc::Opcode::noop; }));
  CHECK(refused([](Exchange& e) { e.incoming.header.opcode = static_cast<ipc::Opcode>(9); }));
  CHECK(refused([](Exchange& e) { e.incoming.header.put_mode = static_cast<ipc::PutMode>(2); }));
  CHECK(refused([](Exchange& e) { e.pages[1].key_bytes = 0; }));
  CHECK(refused([](Exchange& e) { e.pages[1].key_bytes = 1025; }));
  CHECK(refused([](Exchange& e) { e.pages[1].key = nullptr; }));
  CHECK(refused([](Exchange& e) { e.incoming.pages = {}; }));
  CHECK(f.store->stats().objects == 1);
}

TEST_CASE("if_absent answers with the object that is there, and moves nothing") {
  ServerFixture f;
  f.put({"a"}, {100}, 1);
  const std::uint64_t moves = f.responder.moved_requests;
  const auto again = f.put({"a"}, {50}, 2);
  CHECK(again->replies[0].status == Status::ok);
  CHECK(again->replies[0].bytes == 100);
  CHECK(f.responder.moved_requests == moves);
  auto replace = f.request(ipc::Opcode::put, {"a"}, {50}, 2);
  replace->incoming.header.put_mode = ipc::PutMode::replace;
  CHECK(f.run(std::move(replace))->replies[0].bytes == 50);
  CHECK(f.get({"a"}, {100})->replies[0].bytes == 50);
}

TEST_CASE("a payload that does not match its checksum is corrupt, counted and gone") {
  ServerFixture f;
  f.put({"a", "b"}, {1000}, 1);
  store::ReadPin pin;
  auto probe = f.request(ipc::Opcode::get, {"a"}, {1000});
  const auto& page = probe->pages[0];
  REQUIRE(f.store->begin_read({page.hash, page.group, {1}, {}, {page.key, 1}}, store::kNoLease,
                              f.clock.now_ns(), pin) == Status::ok);
  const auto offset = static_cast<std::size_t>(pin.bytes.data() - f.arena.data());
  f.store->end_read(pin);
  f.arena[offset + 500] ^= std::byte{4};
  SUBCASE("whole") {
    CHECK(f.run(std::move(probe))->replies[0].status == Status::corrupt);
  }
  SUBCASE("ranged, although the range is fine") {
    CHECK(get_with(f, 10, false, 900)->replies[0].status == Status::corrupt);
  }
  CHECK(f.get({"a", "b"}, {1000})->replies[0].status == Status::not_found);
  CHECK(f.get({"b"}, {1000})->replies[0].status == Status::ok);
  CHECK(f.counted("server.corrupt") == 1);
  CHECK(f.store->stats().quarantined == 1);
}

TEST_CASE("verification asks for digests as often as its policy says") {
  for (const auto& [policy, expected] :
       {std::pair{base::VerifyMode::always, 64u}, std::pair{base::VerifyMode::sampled, 8u},
        std::pair{base::VerifyMode::never, 0u}}) {
    ServerConfig config = ServerFixture::verifying();
    config.verify = policy;
    config.verify_one_in = 8;
    ServerFixture f(64 * 1024, config);
    f.put({"a"}, {100}, 1);
    for (int i = 0; i < 64; ++i) CHECK(f.get({"a"}, {100})->replies[0].status == Status::ok);
    CHECK(f.counted("server.verified") == expected);
    // Where the digest is there anyway.
    f.responder.takes_digests = true;
    for (int i = 0; i < 64; ++i) CHECK(f.get({"a"}, {100})->replies[0].status == Status::ok);
    CHECK(f.counted("server.verified") == expected + 64);
  }
}

TEST_CASE("another epoch is refused, and one that ends under a put unpublishes it") {
  ServerFixture f;
  auto old = f.request(ipc::Opcode::exists, {"a"});
  old->incoming.header.epoch = ServerFixture::kEpoch - 1;
  CHECK(f.run(std::move(old))->replies[0].status == Status::wrong_epoch);
  auto put = f.request(ipc::Opcode::put, {"a"}, {100}, 1);
  f.server->on_request(put->incoming);
  f.server->do_work();
  REQUIRE(f.responder.moves.size() == 1);
  f.own_all(ServerFixture::kEpoch + 1);
  f.responder.finish(*f.server, 0);
  REQUIRE(put->replied);
  CHECK(put->replies[0].status == Status::wrong_epoch);
  CHECK(f.store->stats().objects == 0);
  CHECK(f.store->stats().reserved == 0);
}

TEST_CASE("a failed move fails its page only, and nothing of it is published") {
  ServerFixture f;
  auto put = f.request(ipc::Opcode::put, {"a", "b"}, {100}, 1);
  f.server->on_request(put->incoming);
  f.server->do_work();
  REQUIRE(f.responder.moves.size() == 2);
  f.responder.finish(*f.server, 0, Status::transfer_failed);
  CHECK_FALSE(put->replied);
  f.responder.finish(*f.server, 0);
  REQUIRE(put->replied);
  CHECK(put->replies[0].status == Status::transfer_failed);
  CHECK(put->replies[1].status == Status::ok);
  CHECK(f.store->stats().objects == 1);
  const auto got = f.get({"a", "b"}, {100});
  CHECK(got->replies[0].status == Status::not_found);
  CHECK(f.counted("server.failed_moves") == 1);
}

TEST_CASE("the head of a prefix outlives its tail") {
  ServerFixture f(4096);
  f.put({"h0", "h1", "h2", "h3"}, {1024}, 1);
  SUBCASE("after a put") {}
  SUBCASE("after an exists, when its leases are over") {
    f.server->do_work();
    f.run(f.request(ipc::Opcode::exists, {"h0", "h1", "h2", "h3"}));
    f.clock.advance_ns(20 * base::kNsPerSecond);
    f.server->do_work();
  }
  SUBCASE("after a get, when its leases are over") {
    f.server->do_work();
    f.get({"h0", "h1", "h2", "h3"}, {1024});
    f.clock.advance_ns(20 * base::kNsPerSecond);
    f.server->do_work();
  }
  f.put({"x"}, {2048}, 1);
  auto left = f.run(f.request(ipc::Opcode::exists, {"h0", "h1", "h2", "h3"}));
  CHECK(left->replies[0].status == Status::ok);
  CHECK(left->replies[1].status == Status::ok);
  CHECK(left->replies[2].status == Status::not_found);
  CHECK(left->replies[3].status == Status::not_found);
}

TEST_CASE("a lease time and a TTL arrive at the store") {
  ServerFixture f(4096);
  f.server->do_work();
  auto put = f.request(ipc::Opcode::put, {"a"}, {1024}, 1);
  put->incoming.header.ttl_ms = 5000;
  f.run(std::move(put));
  f.put({"b"}, {1024}, 1);
  auto exists = f.request(ipc::Opcode::exists, {"b"});
  exists->incoming.header.lease_ms = 40'000;
  f.run(std::move(exists));
  f.clock.advance_ns(30 * base::kNsPerSecond);
  f.server->do_work();
  CHECK(f.get({"a"}, {1024})->replies[0].status == Status::not_found);
  CHECK(f.store->stats().leased_bytes == 1024);
}

TEST_CASE("a depth arrives at the store: the deeper of two pages leaves first") {
  for (const std::uint32_t depth_of_b : {1u, 9u}) {
    ServerFixture f(4096);
    for (const char* key : {"a", "b"}) {
      auto put = f.request(ipc::Opcode::put, {key}, {2048}, 1);
      put->pages[0].depth = *key == 'a' ? 5 : depth_of_b;
      f.run(std::move(put));
    }
    f.put({"c"}, {2048}, 1);
    CHECK(f.get({"a"}, {2048})->replies[0].status ==
          (depth_of_b > 5 ? Status::ok : Status::not_found));
    CHECK(f.get({"b"}, {2048})->replies[0].status ==
          (depth_of_b > 5 ? Status::not_found : Status::ok));
  }
}

TEST_CASE("an object that comes while a batched get of it waits is leased by that get") {
  ServerConfig config = ServerFixture::verifying();
  config.moves_max = 1;
  ServerFixture f(4096, config);
  f.put({"a"}, {1024}, 1);
  auto get = f.request(ipc::Opcode::get, {"a", "b"}, {1024, 1024});
  f.server->on_request(get->incoming);
  f.server->do_work();  // "a" moves, "b" has to wait and is not there
  REQUIRE(f.responder.moves.size() == 1);
  const transport::PageRequest& b = get->pages[1];
  store::WriteRequest write;
  write.key = {b.hash, b.group, {1}, {}, {b.key, b.key_bytes}};
  write.length = 1024;
  const store::WriteResult room = f.store->begin_write(write, f.clock.now_ns());
  REQUIRE(room.start == store::WriteStart::reserved);
  const std::uint64_t digest = base::payload_digest(room.reservation.extent.data(), 1024);
  f.store->publish(room.reservation, digest, ServerFixture::kEpoch, f.clock.now_ns());
  f.responder.finish(*f.server, 0);
  f.server->do_work();
  f.responder.finish(*f.server, 0);
  REQUIRE(get->replied);
  REQUIRE(get->replies[1].status == Status::ok);
  CHECK(f.store->stats().leased_bytes == 2048);
}

}  // namespace simm::server::testing
