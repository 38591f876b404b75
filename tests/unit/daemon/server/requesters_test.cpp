// The window of moves among those who ask: what one has under way takes no room from another.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;

struct RequestersFixture : ServerFixture {
  RequestersFixture() : ServerFixture(128 * kMiB, many()) {}

  static ServerConfig many() {
    ServerConfig config = verifying();
    config.requests_max = 64;
    return config;
  }

  // A put that is asked for by `requester`, not carried out.
  Exchange& ask(std::uint64_t requester, std::uint64_t tenant, std::size_t bytes,
                std::size_t pages = 1) {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < pages; ++i) keys.push_back("k" + std::to_string(++keys_));
    asked.push_back(request(ipc::Opcode::put, keys, {bytes}, 1, tenant));
    asked.back()->incoming.requester_id = requester;
    server->on_request(asked.back()->incoming);
    return *asked.back();
  }
  void turn() {
    while (server->do_work() > 0) {
    }
  }
  [[nodiscard]] std::size_t bytes_of(std::uint64_t requester) const {
    std::size_t bytes = 0;
    for (const PendingMove& move : responder.moves) {
      if (move.exchange->incoming.requester_id == requester) bytes += move.extent.size();
    }
    return bytes;
  }
  // Carries out the moves of one requester, until it has none any more.
  void settle_one(std::uint64_t requester) {
    for (;;) {
      turn();
      const auto at = std::find_if(
          responder.moves.begin(), responder.moves.end(),
          [&](const PendingMove& m) { return m.exchange->incoming.requester_id == requester; });
      if (at == responder.moves.end()) return;
      responder.finish(*server, static_cast<std::size_t>(at - responder.moves.begin()));
    }
  }

  std::vector<std::unique_ptr<Exchange>> asked;

private:
  int keys_ = 0;
};

}  // namespace

TEST_CASE("an asker whose moves do not end takes no room from another") {
  for (const std::uint64_t tenant : {1u, 2u}) {
    CAPTURE(tenant);
    RequestersFixture f;
    for (int i = 0; i < 4; ++i) (void)f.ask(1, 1, 8 * kMiB);
    f.turn();
    CHECK(f.bytes_of(1) == 16 * kMiB);  // alone it has the whole window, and no more
    // Another one may begin at once, a move or small ones, and soon has a whole window as well.
    const Exchange& small = f.ask(2, tenant, 4096);
    const Exchange& other = f.ask(2, tenant, kMiB, 20);
    f.turn();
    CHECK(f.bytes_of(2) > 0);
    f.clock.advance_ns(20 * base::kNsPerMs);
    CHECK(f.server->next_deadline_ns() <= f.clock.now_ns());
    f.turn();
    CHECK(f.bytes_of(2) >= 8 * kMiB);  // as much as a request may have
    f.settle_one(2);
    CHECK(small.replied);
    CHECK(other.replied);
    CHECK(f.bytes_of(1) == 16 * kMiB);
    f.settle();
    for (const auto& e : f.asked) CHECK(e->replied);
  }
}

TEST_CASE("an asker of many tenants has one window, and its tenants take turns in it") {
  RequestersFixture f;
  for (std::uint64_t tenant = 1; tenant <= 8; ++tenant) (void)f.ask(1, tenant, kMiB, 8);
  for (int i = 0; i < 10; ++i) {
    f.turn();
    f.clock.advance_ns(20 * base::kNsPerMs);
  }
  CHECK(f.bytes_of(1) == 16 * kMiB);
  for (const auto& e : f.asked) CHECK(e->moves_open == 2);
  f.settle();
  for (const auto& e : f.asked) CHECK(e->replied);
}

TEST_CASE("a tenant begins at once though another one of its asker has filled the window") {
  RequestersFixture f;
  for (int i = 0; i < 4; ++i) (void)f.ask(1, 1, 8 * kMiB);
  f.turn();
  CHECK(f.bytes_of(1) == 16 * kMiB);
  const Exchange& pages = f.ask(1, 2, 60 * 1024, 16);
  const Exchange& large = f.ask(1, 3, kMiB, 8);
  const Exchange& more = f.ask(1, 1, kMiB, 8);
  f.turn();
  CHECK(pages.moves_open == 16);
  CHECK(large.moves_open == 1);  // so much is little
  CHECK(more.moves_open == 0);
  f.settle();
  for (const auto& e : f.asked) CHECK(e->replied);
}

TEST_CASE("the askers of a tenant take turns by bytes") {
  RequestersFixture f;
  for (int i = 0; i < 8; ++i) (void)f.ask(1, 1, kMiB, 8);
  f.turn();
  (void)f.ask(2, 1, 256 * 1024, 60);
  // Each move that ends makes room for whoever has had less.
  for (int i = 0; i < 32; ++i) {
    f.responder.finish(*f.server, 0);
    f.turn();
  }
  CHECK(f.bytes_of(2) + f.bytes_of(1) <= 17 * kMiB);
  CHECK(f.asked[8]->moves_open >= 16);
  f.settle();
  for (const auto& e : f.asked) CHECK(e->replied);
}

TEST_CASE("a small request passes large ones of its asker that have no room") {
  RequestersFixture f;
  for (int i = 0; i < 4; ++i) (void)f.ask(1, 1, 8 * kMiB);
  f.turn();
  std::vector<const Exchange*> small;
  for (int i = 0; i < 40; ++i) small.push_back(&f.ask(1, 1, 4096));
  f.turn();
  CHECK(f.bytes_of(1) == 16 * kMiB + 16 * 4096);  // so many at once, and no more
  while (f.responder.moves.size() > 2) f.responder.finish(*f.server, 2), f.turn();
  for (const Exchange* e : small) CHECK(e->replied);
  f.settle();
  for (const auto& e : f.asked) CHECK(e->replied);
}

}  // namespace simm::server::testing
