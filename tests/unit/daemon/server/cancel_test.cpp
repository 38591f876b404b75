// Cancel and abort in every state of a request: what moves is waited for, what does not is given
// up, nothing is published late, nothing stays behind.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {

namespace {

constexpr int kPages = 6;

ServerConfig narrow() {
  ServerConfig config = ServerFixture::verifying();
  config.request_moves_max = 2;
  return config;
}

std::vector<std::string> names() {
  std::vector<std::string> made;
  for (int i = 0; i < kPages; ++i) made.push_back("p" + std::to_string(i));
  return made;
}

// A request after `moves_done` of its moves have ended.
std::unique_ptr<Exchange> halfway(ServerFixture& f, ipc::Opcode opcode, int moves_done) {
  auto e = f.request(opcode, names(), {512}, 9);
  f.server->on_request(e->incoming);
  for (int done = 0; done < moves_done; ++done) {
    f.server->do_work();
    f.responder.finish(*f.server, 0);
  }
  return e;
}

void check_nothing_is_held(ServerFixture& f) {
  CHECK(f.server->requests_under_way() == 0);
  CHECK(f.server->moves_under_way() == 0);
  CHECK(f.store->stats().reserved == 0);
  CHECK(f.store->stats().lingering == 0);
  // A pin that was left would keep the extents of removed objects.
  f.run(f.request(ipc::Opcode::remove, names()));
  CHECK(f.store->stats().free_bytes == f.store->stats().arena_bytes);
}

}  // namespace

TEST_CASE("cancel in every state: ended pages keep their answer, the others are cancelled") {
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get}) {
    for (int done = 0; done < kPages; ++done) {
      for (const bool in_flight : {false, true}) {
        CAPTURE(done);
        CAPTURE(in_flight);
        ServerFixture f(64 * 1024, narrow());
        if (opcode == ipc::Opcode::get) f.put(names(), {512}, 9);
        auto e = halfway(f, opcode, done);
        if (in_flight) f.server->do_work();
        const std::size_t open = f.responder.moves.size();
        CHECK(open <= 2);
        f.server->on_cancel(e->incoming);
        CHECK(e->replied == (open == 0));
        f.server->do_work();
        CHECK(f.responder.moves.size() == open);  // no new ones
        while (!f.responder.moves.empty()) f.responder.finish(*f.server, 0, Status::cancelled);
        REQUIRE(e->replied);
        for (int i = 0; i < kPages; ++i) {
          CHECK(e->replies[static_cast<std::size_t>(i)].status ==
                (i < done ? Status::ok : Status::cancelled));
        }
        if (opcode == ipc::Opcode::put) {
          CHECK(f.store->stats().objects == static_cast<std::uint64_t>(done));
        }
        check_nothing_is_held(f);
      }
    }
  }
}

TEST_CASE("a pull that completes after the cancel is not published") {
  ServerFixture f(64 * 1024, narrow());
  auto e = halfway(f, ipc::Opcode::put, 0);
  f.server->do_work();
  REQUIRE(f.responder.moves.size() == 2);
  f.server->on_cancel(e->incoming);
  f.responder.finish(*f.server, 1);
  CHECK_FALSE(e->replied);
  f.responder.finish(*f.server, 0);
  REQUIRE(e->replied);
  for (const auto& reply : e->replies) CHECK(reply.status == Status::cancelled);
  CHECK(f.store->stats().objects == 0);
  check_nothing_is_held(f);
}

TEST_CASE("a push that completes after the cancel is answered as it was") {
  ServerFixture f(64 * 1024, narrow());
  f.put(names(), {512}, 9);
  auto e = halfway(f, ipc::Opcode::get, 0);
  f.server->do_work();
  f.server->on_cancel(e->incoming);
  f.responder.finish(*f.server, 0);
  f.responder.finish(*f.server, 0);
  REQUIRE(e->replied);
  CHECK(e->replies[0].bytes == 512);
  CHECK(e->replies[2].status == Status::cancelled);
  check_nothing_is_held(f);
}

TEST_CASE("abort in every state releases everything and answers nobody") {
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get}) {
    for (int done = 0; done < kPages; ++done) {
      for (const bool cancelled : {false, true}) {
        CAPTURE(done);
        ServerFixture f(64 * 1024, narrow());
        if (opcode == ipc::Opcode::get) f.put(names(), {512}, 9);
        auto e = halfway(f, opcode, done);
        f.server->do_work();
        // The transport ends the moves first; then the server may ask for more before it is told.
        while (!f.responder.moves.empty()) f.responder.finish(*f.server, 0, Status::cancelled);
        if (cancelled && !e->replied) f.server->on_cancel(e->incoming);
        if (e->replied) continue;
        f.server->on_aborted(e->incoming);
        e->aborted = true;
        f.settle();
        CHECK_FALSE(e->replied);
        check_nothing_is_held(f);
      }
    }
  }
}

TEST_CASE("a request that waits for room can be cancelled and aborted") {
  for (const bool abort : {false, true}) {
    ServerFixture f(4096);
    f.put({"old"}, {4096}, 1);
    store::ReadPin pin;
    auto probe = f.request(ipc::Opcode::get, {"old"}, {4096});
    const auto& page = probe->pages[0];
    REQUIRE(f.store->begin_read({page.hash, page.group, {1}, {}, {page.key, 3}}, store::kNoLease,
                                f.clock.now_ns(), pin) == Status::ok);
    auto e = f.request(ipc::Opcode::put, names(), {512}, 9);
    f.server->on_request(e->incoming);
    for (int i = 0; i < 5; ++i) f.server->do_work();
    CHECK_FALSE(e->replied);
    CHECK(f.server->next_deadline_ns() == f.clock.now_ns() + base::kNsPerMs);
    if (abort) {
      f.server->on_aborted(e->incoming);
      e->aborted = true;
    } else {
      f.server->on_cancel(e->incoming);
      REQUIRE(e->replied);
      CHECK(e->replies[0].status == Status::no_space);  // it says why nothing has happened
    }
    // What is left to do is to publish the numbers.
    f.clock.advance_ns(f.server->next_deadline_ns() - f.clock.now_ns());
    f.server->do_work();
    CHECK(f.server->next_deadline_ns() == base::kNoDeadline);
    f.store->end_read(pin);
    check_nothing_is_held(f);
  }
}

}  // namespace simm::server::testing
