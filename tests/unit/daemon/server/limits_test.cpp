// Bounds: windows, turns, deadlines, waiting for room, sharing among tenants.
#include <algorithm>
#include <string>
#include <vector>

#include "daemon/base/turn_clock.h"
#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {

namespace {

std::vector<std::string> numbered(const std::string& prefix, int count) {
  std::vector<std::string> made;
  for (int i = 0; i < count; ++i) made.push_back(prefix + std::to_string(i));
  return made;
}

}  // namespace

TEST_CASE("moves under way are bounded by number and bytes, of one request and of all") {
  ServerConfig config = ServerFixture::verifying();
  config.request_moves_max = 4;
  config.request_bytes_max = 3000;
  config.moves_max = 6;
  config.bytes_max = 6000;
  ServerFixture f(1 << 20, config);
  auto small = f.request(ipc::Opcode::put, numbered("s", 10), {10});
  f.server->on_request(small->incoming);
  f.server->do_work();
  CHECK(f.responder.moves.size() == 4);
  auto other = f.request(ipc::Opcode::put, numbered("o", 10), {10});
  f.server->on_request(other->incoming);
  f.server->do_work();
  CHECK(f.responder.moves.size() == 6);
  f.settle();
  auto large = f.request(ipc::Opcode::put, numbered("l", 10), {1000});
  f.server->on_request(large->incoming);
  f.server->do_work();
  CHECK(f.responder.moves.size() == 3);
  f.settle();
  // One move is always allowed, however long.
  auto huge = f.request(ipc::Opcode::put, numbered("h", 2), {20'000});
  f.server->on_request(huge->incoming);
  f.server->do_work();
  CHECK(f.responder.moves.size() == 1);
  f.settle();
  CHECK(std::all_of(huge->replies.begin(), huge->replies.end(),
                    [](const auto& r) { return r.status == Status::ok; }));
}

TEST_CASE("a turn starts a bounded number of pages, misses included") {
  ServerConfig config = ServerFixture::verifying();
  config.pages_per_turn = 5;
  ServerFixture f(4096, config);
  auto e = f.request(ipc::Opcode::get, numbered("m", 12), {10});
  f.server->on_request(e->incoming);
  CHECK(f.server->do_work() == 5);
  CHECK(f.server->do_work() == 5);
  CHECK_FALSE(e->replied);
  CHECK(f.server->do_work() == 2);
  CHECK(e->replied);
  CHECK(f.server->do_work() == 0);
}

TEST_CASE("more requests at once than the server has room for are told so") {
  ServerConfig config = ServerFixture::verifying();
  config.requests_max = 2;
  ServerFixture f(64 * 1024, config);
  std::vector<std::unique_ptr<Exchange>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(f.request(ipc::Opcode::put, {"k" + std::to_string(i)}, {10}));
    f.server->on_request(all.back()->incoming);
  }
  REQUIRE(all[2]->replied);
  CHECK(all[2]->replies[0].status == Status::out_of_memory);
  CHECK(f.counted("server.refused_requests") == 1);
  f.settle();
  CHECK(all[0]->replies[0].status == Status::ok);
  CHECK(f.put({"k3"}, {10}, 1)->replies[0].status == Status::ok);
}

TEST_CASE("after the deadline no move is started and nothing published: the rest is a timeout") {
  ServerConfig config = ServerFixture::verifying();
  config.request_moves_max = 1;
  ServerFixture f(64 * 1024, config);
  auto e = f.request(ipc::Opcode::put, {"a", "b", "c"}, {10});
  f.server->on_request(e->incoming);
  f.server->do_work();
  REQUIRE(f.responder.moves.size() == 1);
  f.responder.finish(*f.server, 0);
  f.server->do_work();
  REQUIRE(f.responder.moves.size() == 1);
  // The copy of "b" ends late, as after a pause of the daemon: its client may have given up and
  // written other bytes meanwhile.
  f.clock.advance_ns(base::kNsPerSecond);
  f.responder.finish(*f.server, 0);
  f.server->do_work();
  CHECK(f.responder.moves.empty());
  REQUIRE(e->replied);
  CHECK(f.store->stats().objects == 1);
  CHECK(e->replies[0].status == Status::ok);
  CHECK(e->replies[1].status == Status::timeout);
  CHECK(e->replies[2].status == Status::timeout);
  CHECK(f.counted("server.timeouts") == 2);
  auto late = f.request(ipc::Opcode::get, {"a"}, {10});
  late->incoming.header.deadline_ns = f.clock.now_ns();
  CHECK(f.run(std::move(late))->replies[0].status == Status::timeout);
}

TEST_CASE("whether a put is too late is decided after its copy, not when the turn began") {
  ServerFixture f;
  base::TurnClock turn(f.clock);
  Server server(ServerFixture::verifying(), *f.store, turn);
  auto e = f.request(ipc::Opcode::put, {"a"}, {10});
  server.use_map(f.map);
  server.on_request(e->incoming);
  server.do_work();
  REQUIRE(f.responder.moves.size() == 1);
  f.clock.advance_ns(2 * base::kNsPerSecond);  // stopped in the middle of the copy, same turn
  f.responder.finish(server, 0);
  REQUIRE(e->replied);
  CHECK(e->replies[0].status == Status::timeout);
  CHECK(f.store->stats().objects == 0);
}

TEST_CASE("a put waits for room inside half of its time, then answers no_space") {
  store::StoreConfig store_config = ServerFixture::quiet();
  store_config.lease_budget_percent = 100;
  ServerFixture f(4096, ServerFixture::verifying(), store_config);
  f.server->do_work();
  f.put({"old"}, {4096}, 1);
  auto exists = f.request(ipc::Opcode::exists, {"old"});
  exists->incoming.header.lease_ms = 300;
  f.run(std::move(exists));
  auto e = f.request(ipc::Opcode::put, {"new", "newer"}, {1024}, 2);
  SUBCASE("room comes in time") {
    e->incoming.header.deadline_ns = f.clock.now_ns() + 2 * base::kNsPerSecond;
    f.server->on_request(e->incoming);
    f.server->do_work();
    CHECK_FALSE(e->replied);
    CHECK(f.server->next_deadline_ns() <= f.clock.now_ns() + base::kNsPerMs);
    f.clock.advance_ns(700 * base::kNsPerMs);
    f.settle();
    REQUIRE(e->replied);
    CHECK(e->replies[1].status == Status::ok);
    CHECK(f.counted("server.space_waits") >= 1);
  }
  SUBCASE("room comes too late") {
    e->incoming.header.deadline_ns = f.clock.now_ns() + 400 * base::kNsPerMs;
    f.server->on_request(e->incoming);
    f.server->do_work();
    f.clock.advance_ns(199 * base::kNsPerMs);
    f.server->do_work();
    f.server->do_work();
    CHECK_FALSE(e->replied);
    f.clock.advance_ns(2 * base::kNsPerMs);
    f.server->do_work();
    f.server->do_work();
    REQUIRE(e->replied);
    CHECK(e->replies[0].status == Status::no_space);
    CHECK(e->replies[1].status == Status::no_space);
    CHECK(f.get({"old"}, {4096})->replies[0].status == Status::ok);
  }
  SUBCASE("room never comes: longer than the arena") {
    CHECK(f.put({"huge"}, {4097}, 1)->replies[0].status == Status::no_space);
  }
  f.settle();
}

TEST_CASE("tenants share by bytes, whatever their pages and batches look like") {
  ServerConfig config = ServerFixture::verifying();
  config.moves_max = 4;  // far fewer than what a request may have: everybody always has more to do
  config.quantum_bytes = 64 * 1024;
  ServerFixture f(8 << 20, config);
  f.put({"large"}, {256 * 1024}, 1, 1);
  f.put({"small"}, {4096}, 1, 2);
  f.put({"tiny"}, {64}, 1, 3);
  std::vector<std::unique_ptr<Exchange>> load;
  // Tenant 1 floods with large pages in several batches, 2 and 3 have one batch each.
  for (int i = 0; i < 4; ++i) {
    load.push_back(
        f.request(ipc::Opcode::get, std::vector<std::string>(100, "large"), {256 * 1024}, 0, 1));
  }
  load.push_back(
      f.request(ipc::Opcode::get, std::vector<std::string>(1000, "small"), {4096}, 0, 2));
  load.push_back(f.request(ipc::Opcode::get, std::vector<std::string>(1000, "tiny"), {64}, 0, 3));
  const auto before = [&](std::uint64_t tenant) {
    return f.server->queue().charged_bytes({tenant});
  };
  for (auto& e : load) f.server->on_request(e->incoming);
  const std::uint64_t start[] = {before(1), before(2), before(3)};
  // As long as all three have work, none gets more than another by more than a page and a quantum.
  while (!load[4]->replied && !load[5]->replied) {
    f.server->do_work();
    REQUIRE_FALSE(f.responder.moves.empty());
    f.responder.finish(*f.server, 0);
    std::uint64_t least = ~std::uint64_t{0};
    std::uint64_t most = 0;
    for (const std::uint64_t tenant : {1u, 2u, 3u}) {
      const std::uint64_t bytes = before(tenant) - start[tenant - 1];
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
    CHECK(most - least <= 256 * 1024 + 2 * 64 * 1024 + 8 * 1024);
  }
  CHECK_FALSE(load[0]->replied);
  f.settle();
}

TEST_CASE("tenants share a busy shard by their weights, and what one leaves the others have") {
  ServerConfig config = ServerFixture::verifying();
  config.moves_max = 4;  // everybody always has more to do
  config.quantum_bytes = 64 * 1024;
  config.weights = base::TenantWeights({{{1}, 3}});
  ServerFixture f(8 << 20, config);
  f.put({"page"}, {32 * 1024}, 1, 1);
  f.put({"page"}, {32 * 1024}, 1, 2);
  const auto charged = [&](std::uint64_t tenant) {
    return f.server->queue().charged_bytes({tenant});
  };
  const std::uint64_t start[] = {charged(1), charged(2)};
  std::vector<std::unique_ptr<Exchange>> load;
  for (const std::uint64_t tenant : {1u, 2u}) {
    for (int i = 0; i < 2; ++i) {
      load.push_back(f.request(ipc::Opcode::get, std::vector<std::string>(400, "page"), {32 * 1024},
                               0, tenant));
      f.server->on_request(load.back()->incoming);
    }
  }
  const auto go_on_until = [&](const auto& is_over) {
    while (!is_over()) {
      f.server->do_work();
      REQUIRE_FALSE(f.responder.moves.empty());
      f.responder.finish(*f.server, 0);
    }
  };
  go_on_until([&] { return load[0]->replied || load[1]->replied; });
  const double ratio =
      static_cast<double>(charged(1) - start[0]) / static_cast<double>(charged(2) - start[1]);
  CHECK(ratio == doctest::Approx(3.0).epsilon(0.1));
  // The tenant with the weight has nothing any more: the other one moves all that is moved.
  go_on_until([&] { return load[0]->replied && load[1]->replied; });
  const std::uint64_t before = charged(2);
  const std::uint64_t of_first = charged(1);
  go_on_until([&] { return load[2]->replied && load[3]->replied; });
  CHECK(charged(1) == of_first);
  CHECK(charged(2) > before);
  f.settle();
}

TEST_CASE("more tenants than lanes are still served") {
  ServerConfig config = ServerFixture::verifying();
  config.tenants_max = 2;
  ServerFixture f(64 * 1024, config);
  std::vector<std::unique_ptr<Exchange>> all;
  for (std::uint64_t tenant = 1; tenant <= 6; ++tenant) {
    all.push_back(f.request(ipc::Opcode::put, {"k"}, {100}, 1, tenant));
    f.server->on_request(all.back()->incoming);
  }
  f.settle();
  for (auto& e : all) CHECK(e->replies[0].status == Status::ok);
}

TEST_CASE("the store's numbers are published") {
  ServerFixture f;
  f.put({"a", "b"}, {100}, 1);
  CHECK(f.counted("store.objects") == 0);  // not with each request: that would cost too much
  const base::TimeNs due_ns = f.server->next_deadline_ns();
  REQUIRE(due_ns > f.clock.now_ns());
  REQUIRE(due_ns <= f.clock.now_ns() + 100 * base::kNsPerMs);
  f.clock.advance_ns(due_ns - f.clock.now_ns());
  f.server->do_work();
  CHECK(f.server->next_deadline_ns() == base::kNoDeadline);  // an idle shard sleeps on
  CHECK(f.counted("store.objects") == 2);
  CHECK(f.counted("store.payload_bytes") == 200);
  CHECK(f.counted("store.extent_bytes") == 256);
  CHECK(f.counted("server.put_bytes") == 200);
  const store::TenantTable& tenants = f.server->tenants().latest();
  REQUIRE(tenants.count == 1);
  CHECK(tenants.rows[0].tally.objects == 2);
  CHECK(tenants.rows[0].extent_bytes == 256);
}

}  // namespace simm::server::testing
