#include "daemon/server/server.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {

TEST_CASE("what was put is got, byte for byte") {
  ServerFixture f;
  const auto put = f.put({"a", "b", "c"}, {100, 4096, 1}, 5);
  REQUIRE(put->replied);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(put->replies[i].status == Status::ok);
    CHECK(put->replies[i].bytes == put->pages[i].slice.length);
  }
  const auto got = f.get({"c", "x", "a"}, {10, 10, 200});
  REQUIRE(got->replied);
  CHECK(got->replies[0].status == Status::ok);
  CHECK(got->replies[0].bytes == 1);
  CHECK(got->replies[1].status == Status::not_found);
  CHECK(got->replies[2].bytes == 100);
  CHECK(std::count(got->buffers[2].begin(), got->buffers[2].end(), std::byte{5}) == 100);
  CHECK(got->buffers[2][100] == std::byte{0xee});
  CHECK(f.server->requests_under_way() == 0);
}

TEST_CASE("exists and remove are answered at once") {
  ServerFixture f;
  f.put({"a", "b"}, {100, 200}, 5);
  auto exists = f.request(ipc::Opcode::exists, {"a", "b", "c"});
  f.server->on_request(exists->incoming);
  REQUIRE(exists->replied);
  CHECK(exists->replies[0].bytes == 100);
  CHECK(exists->replies[1].bytes == 200);
  CHECK(exists->replies[2].status == Status::not_found);
  auto removed = f.request(ipc::Opcode::remove, {"b", "b"});
  f.server->on_request(removed->incoming);
  REQUIRE(removed->replied);
  // From the last to the first: the last one finds it.
  CHECK(removed->replies[1].status == Status::ok);
  CHECK(removed->replies[0].status == Status::not_found);
}

TEST_CASE("pin and unpin are answered at once, each page for itself") {
  ServerFixture f;
  f.put({"a", "b"}, {100, 200}, 5);
  const auto ask = [&](ipc::Opcode opcode) {
    auto request = f.request(opcode, {"a", "b", "c"});
    f.server->on_request(request->incoming);
    REQUIRE(request->replied);
    CHECK(request->replies[0].status == Status::ok);
    CHECK(request->replies[1].status == Status::ok);
    CHECK(request->replies[2].status == Status::not_found);
  };
  ask(ipc::Opcode::pin);
  CHECK(f.store->stats().pinned_groups == 2);
  ask(ipc::Opcode::unpin);
  CHECK(f.store->stats().pinned_groups == 0);
  auto elsewhere = f.request(ipc::Opcode::pin, {"a"});
  elsewhere->incoming.header.epoch = ServerFixture::kEpoch + 1;
  f.server->on_request(elsewhere->incoming);
  CHECK(elsewhere->replies[0].status == Status::wrong_epoch);
  CHECK(f.store->stats().pinned_groups == 0);
}

}  // namespace simm::server::testing
