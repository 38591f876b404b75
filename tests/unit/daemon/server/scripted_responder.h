// ScriptedResponder: the server's other end under the test's control. Moves wait until the test
// carries them out, in any order, with any result; requests and replies are recorded.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/base/manual_clock.h"
#include "daemon/server/server.h"
#include "daemon/transport/transport.h"

namespace simm::server::testing {

// A request and everything that became of it.
struct Exchange {
  transport::Incoming incoming;
  std::vector<transport::PageRequest> pages;
  std::vector<std::string> keys;
  std::vector<std::vector<std::byte>> buffers;  // the client's slices
  std::vector<transport::PageReply> replies;    // empty until replied
  int moves_open = 0;
  bool replied = false;
  bool aborted = false;
};

struct PendingMove {
  Exchange* exchange = nullptr;
  std::uint16_t page = 0;
  std::span<std::byte> extent;       // pull
  std::span<const std::byte> bytes;  // push
  bool is_pull = false;
  bool whole_digest = false;
};

class ScriptedResponder final : public transport::ServerOrders {
public:
  void pull(transport::Incoming& incoming, std::uint16_t page,
            std::span<std::byte> extent) noexcept override {
    Exchange& e = of(incoming);
    CHECK(extent.size() == e.pages[page].slice.length);
    open(e, {&e, page, extent, {}, true, true});
  }
  void push(transport::Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override {
    Exchange& e = of(incoming);
    CHECK(bytes.size() <= e.pages[page].slice.length);
    open(e, {&e, page, {}, bytes, false, whole_digest});
  }
  void reply(transport::Incoming& incoming,
             std::span<const transport::PageReply> pages) noexcept override {
    Exchange& e = of(incoming);
    CHECK_FALSE(e.replied);
    CHECK_FALSE(e.aborted);
    CHECK(e.moves_open == 0);
    CHECK(pages.size() == e.incoming.pages.size());
    e.replied = true;
    e.replies.assign(pages.begin(), pages.end());
  }
  [[nodiscard]] bool always_digests() const noexcept override { return takes_digests; }

  // Carries out the move at `index` of `moves` and tells the server.
  void finish(transport::ResponderEvents& server, std::size_t index, Status status = Status::ok) {
    const PendingMove move = moves[index];
    moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(index));
    --move.exchange->moves_open;
    transport::MoveResult result{status, 0};
    std::vector<std::byte>& buffer = move.exchange->buffers[move.page];
    if (status == Status::ok && move.is_pull) {
      std::memcpy(move.extent.data(), buffer.data(), buffer.size());
      result.digest = base::payload_digest(move.extent.data(), move.extent.size());
    } else if (status == Status::ok) {
      std::memcpy(buffer.data(), move.bytes.data(), move.bytes.size());
      if (move.whole_digest || takes_digests) {
        result.digest = base::payload_digest(move.bytes.data(), move.bytes.size());
      }
    }
    server.on_moved(move.exchange->incoming, move.page, result);
  }

  std::vector<PendingMove> moves;
  std::uint64_t moved_requests = 0;  // moves ever asked for
  bool takes_digests = false;

private:
  // SAFETY: every Incoming of these tests is the first member of an Exchange.
  static Exchange& of(transport::Incoming& incoming) {
    return reinterpret_cast<Exchange&>(incoming);
  }
  void open(Exchange& e, PendingMove move) {
    CHECK_FALSE(e.replied);
    CHECK_FALSE(e.aborted);
    ++e.moves_open;
    ++moved_requests;
    moves.push_back(move);
  }
};

class ServerFixture {
public:
  static constexpr base::Epoch kEpoch = 3;

  explicit ServerFixture(std::uint64_t arena_bytes = 64 * 1024, ServerConfig config = verifying(),
                         store::StoreConfig store_config = quiet())
      : arena(arena_bytes) {
    auto made = store::Store::create(store_config, arena);
    REQUIRE(made.has_value());
    store = std::move(made).value();
    server = std::make_unique<Server>(config, *store, clock, ServerCounters(counters, "server"),
                                      StoreCounters(counters, "store"));
    own_all(kEpoch);
  }
  ~ServerFixture() {
    const char* wrong = store->audit();
    CHECK_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
  }

  // Every slot, under a map of this epoch; `since`: without a break from that one on.
  void own_all(base::Epoch epoch, base::Epoch since = 0) {
    map.epoch = epoch;
    map.since.fill(since == 0 ? epoch : since);
    server->use_map(map);
  }

  static ServerConfig verifying() {
    ServerConfig config;
    config.verify = base::VerifyMode::always;
    config.requests_max = 16;
    return config;
  }
  static store::StoreConfig quiet() {
    store::StoreConfig config;
    config.free_low_permille = 0;
    config.free_high_permille = 0;
    return config;
  }

  std::unique_ptr<Exchange> request(ipc::Opcode opcode, std::vector<std::string> keys,
                                    std::vector<std::size_t> lengths = {}, std::uint8_t fill = 0,
                                    std::uint64_t tenant = 1) {
    auto e = std::make_unique<Exchange>();
    const base::KeyHasher hasher(7);
    e->keys = std::move(keys);
    e->pages.resize(e->keys.size());
    e->buffers.resize(e->keys.size());
    for (std::size_t i = 0; i < e->keys.size(); ++i) {
      const std::string place = std::to_string(tenant) + "/" + e->keys[i];
      transport::PageRequest& page = e->pages[i];
      page.hash = hasher(place);
      page.group = page.hash.high;
      page.key = e->keys[i].data();
      page.key_bytes = static_cast<std::uint32_t>(e->keys[i].size());
      page.index = static_cast<std::uint16_t>(i);
      if (lengths.empty()) continue;
      page.slice.length = lengths[i % lengths.size()];
      e->buffers[i].assign(page.slice.length, std::byte{fill});
    }
    e->incoming.responder = &responder;
    e->incoming.header.opcode = opcode;
    e->incoming.header.tenant = {tenant};
    e->incoming.header.epoch = kEpoch;
    e->incoming.header.deadline_ns = clock.now_ns() + base::kNsPerSecond;
    e->incoming.pages = e->pages;
    return e;
  }

  // Turns until nothing happens any more, carrying out every move.
  void settle() {
    for (int turn = 0; turn < 10'000; ++turn) {
      const int work = server->do_work();
      if (responder.moves.empty() && work == 0) return;
      while (!responder.moves.empty()) responder.finish(*server, 0);
    }
    FAIL("the server does not come to rest");
  }
  std::unique_ptr<Exchange> run(std::unique_ptr<Exchange> e) {
    server->on_request(e->incoming);
    settle();
    return e;
  }
  std::unique_ptr<Exchange> put(std::vector<std::string> keys, std::vector<std::size_t> lengths,
                                std::uint8_t fill, std::uint64_t tenant = 1) {
    return run(request(ipc::Opcode::put, std::move(keys), std::move(lengths), fill, tenant));
  }
  std::unique_ptr<Exchange> get(std::vector<std::string> keys, std::vector<std::size_t> lengths,
                                std::uint64_t tenant = 1) {
    return run(request(ipc::Opcode::get, std::move(keys), std::move(lengths), 0xee, tenant));
  }
  std::uint64_t counted(const char* name) const { return counters.value(name); }

  base::ManualClock clock{1000 * base::kNsPerSecond};
  base::CounterSet counters;
  std::vector<std::byte> arena;
  std::unique_ptr<store::Store> store;
  ScriptedResponder responder;
  std::unique_ptr<Server> server;
  base::SlotOwnership map;
};

}  // namespace simm::server::testing
