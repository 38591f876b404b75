// Random requests, moves, cancels, aborts and maps against one server over a tiny arena: every hit
// is one whole value of its key, put since the slot is owned; every request ends, nothing stays.
// Repeat one with SIMM_SEED=<seed> SIMM_ROUNDS=1; SIMM_ROUNDS=<n> runs more of them.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/random.h"
#include "tests/support/number_from.h"
#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {

namespace {

using simm::test_support::number_from;
using simm::test_support::rounds_from;

class ServerHistory {
public:
  explicit ServerHistory(std::uint64_t seed)
      : random_(seed), f_(4096 + random_.below(30'000), config()) {
    f_.own_all(epoch_);
  }

  void step() {
    switch (random_.below(8)) {
      case 0:
        return begin();
      case 1:
      case 2:
      case 3:
        return move();
      case 4:
        return random_.one_in(4) ? cancel() : turn();
      case 5:
        return random_.one_in(8) ? abort() : turn();
      case 6:
        f_.clock.advance_ns(random_.below(30 * base::kNsPerMs));
        if (random_.one_in(100)) f_.clock.advance_ns(20 * base::kNsPerSecond);
        if (random_.one_in(200)) change_map();
        return;
      default:
        return turn();
    }
  }

  void finish() {
    f_.clock.advance_ns(2 * base::kNsPerSecond);  // every deadline is over
    for (int i = 0; i < 2000 && !open_.empty(); ++i) {
      turn();
      move();
    }
    CHECK(open_.empty());
    CHECK(f_.server->requests_under_way() == 0);
    CHECK(f_.server->moves_under_way() == 0);
    CHECK(f_.store->stats().reserved == 0);
    CHECK(f_.store->stats().lingering == 0);
  }
  [[nodiscard]] int hits() const { return hits_; }

private:
  struct Open {
    std::unique_ptr<Exchange> exchange;
    std::uint8_t byte = 0;
    bool cancelled = false;
    std::vector<base::Epoch> since;  // the slot of each page is owned from when the request came
  };
  static constexpr base::Epoch kNever = ~base::Epoch{0};

  ServerConfig config() {
    ServerConfig made = ServerFixture::verifying();
    made.requests_max = static_cast<std::uint32_t>(1 + random_.below(8));
    made.request_moves_max = static_cast<std::uint32_t>(1 + random_.below(4));
    made.moves_max = static_cast<std::uint32_t>(1 + random_.below(6));
    made.pages_per_turn = static_cast<std::uint32_t>(1 + random_.below(16));
    made.quantum_bytes = 1 + random_.below(4096);
    made.tenants_max = static_cast<std::uint32_t>(1 + random_.below(3));
    return made;
  }

  // Some slots go, some come back: what was put into those before is never seen again.
  void change_map() {
    base::SlotSet owned;
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      owned[slot] = random_.below(4) > 0;
    }
    f_.map.advance(++epoch_, owned, !random_.one_in(4));
    f_.server->use_map(f_.map);
  }

  void begin() {
    constexpr ipc::Opcode kOpcodes[] = {ipc::Opcode::put, ipc::Opcode::get,    ipc::Opcode::put,
                                        ipc::Opcode::get, ipc::Opcode::exists, ipc::Opcode::remove};
    const ipc::Opcode opcode = kOpcodes[random_.below(6)];
    std::vector<std::string> keys(1 + random_.below(6));
    std::vector<std::size_t> lengths(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = "k" + std::to_string(random_.below(12));
      lengths[i] = opcode == ipc::Opcode::get ? 3000 : 1 + random_.below(3000);
    }
    Open open;
    open.byte = static_cast<std::uint8_t>(1 + random_.below(200));
    const std::uint64_t tenant = 1 + random_.below(3);
    const std::uint8_t fill = opcode == ipc::Opcode::get ? 0xee : open.byte;
    open.exchange = f_.request(opcode, keys, lengths, fill, tenant);
    Exchange& e = *open.exchange;
    e.incoming.header.epoch = random_.one_in(50) ? epoch_ + 1 : epoch_ - random_.below(3) / 2;
    for (const transport::PageRequest& page : e.pages) {
      const base::Slot slot = base::slot_of(page.group);
      open.since.push_back(f_.map.owns_since(slot, e.incoming.header.epoch) ? f_.map.since[slot]
                                                                            : kNever);
    }
    e.incoming.header.put_mode =
        random_.one_in(2) ? ipc::PutMode::replace : ipc::PutMode::if_absent;
    e.incoming.header.deadline_ns = f_.clock.now_ns() + random_.below(base::kNsPerSecond);
    if (opcode == ipc::Opcode::put) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        versions_[{tenant, keys[i]}][{open.byte, lengths[i]}] = e.incoming.header.epoch;
      }
    }
    open_.push_back(std::move(open));
    f_.server->on_request(e.incoming);
    sweep();
  }

  void turn() {
    f_.server->do_work();
    sweep();
  }

  void move() {
    if (f_.responder.moves.empty()) return;
    const std::size_t at = random_.below(f_.responder.moves.size());
    const bool cancelled = find(f_.responder.moves[at].exchange).cancelled;
    Status status = Status::ok;
    if (cancelled && random_.one_in(2)) status = Status::cancelled;
    if (random_.one_in(30)) status = Status::transfer_failed;
    f_.responder.finish(*f_.server, at, status);
    sweep();
  }

  Open& find(const Exchange* exchange) {
    return *std::find_if(open_.begin(), open_.end(),
                         [&](const Open& o) { return o.exchange.get() == exchange; });
  }

  void cancel() {
    if (open_.empty()) return;
    Open& open = open_[random_.below(open_.size())];
    if (open.cancelled) return;
    open.cancelled = true;
    f_.server->on_cancel(open.exchange->incoming);
    sweep();
  }

  void abort() {
    if (open_.empty()) return;
    const std::size_t at = random_.below(open_.size());
    Exchange* e = open_[at].exchange.get();
    // The path ends every move of the request first.
    for (std::size_t i = 0; i < f_.responder.moves.size();) {
      if (f_.responder.moves[i].exchange == e) {
        f_.responder.finish(*f_.server, i, Status::cancelled);
      } else {
        ++i;
      }
    }
    if (!e->replied) {
      f_.server->on_aborted(e->incoming);
      e->aborted = true;
    }
    sweep();
  }

  // Checks and forgets what is over.
  void sweep() {
    for (auto open = open_.begin(); open != open_.end();) {
      if (open->exchange->replied) check(*open);
      const bool over = open->exchange->replied || open->exchange->aborted;
      open = over ? open_.erase(open) : std::next(open);
    }
    if (sweeps_++ % 8 != 0) return;  // an audit costs as much as all the rest of some steps
    const char* wrong = f_.store->audit();
    CHECK_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
  }

  void check(const Open& open) {
    const Exchange& e = *open.exchange;
    for (std::size_t i = 0; i < e.pages.size(); ++i) {
      if (e.replies[i].status != Status::ok) continue;
      CHECK(open.since[i] != kNever);
      if (e.incoming.header.opcode != ipc::Opcode::get) continue;
      ++hits_;
      const auto& buffer = e.buffers[i];
      const std::size_t length = e.replies[i].bytes;
      const auto byte = static_cast<std::uint8_t>(buffer[0]);
      const auto& known = versions_[{e.incoming.header.tenant.value, e.keys[i]}];
      REQUIRE(known.count({byte, length}) == 1);
      CHECK(known.at({byte, length}) >= open.since[i]);
      CHECK(std::count(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(length),
                       std::byte{byte}) == static_cast<std::ptrdiff_t>(length));
      CHECK(std::count(buffer.begin() + static_cast<std::ptrdiff_t>(length), buffer.end(),
                       std::byte{0xee}) == static_cast<std::ptrdiff_t>(buffer.size() - length));
    }
  }

  base::SeededRandom random_;
  base::Epoch epoch_ = ServerFixture::kEpoch;
  ServerFixture f_;
  std::vector<Open> open_;
  // What was ever put under a key: byte and length, and under which map the last time.
  std::map<std::pair<std::uint64_t, std::string>,
           std::map<std::pair<std::uint8_t, std::size_t>, base::Epoch>>
      versions_;
  int hits_ = 0;
  std::uint64_t sweeps_ = 0;
};

}  // namespace

TEST_CASE("random requests: whole values only, every request ends, nothing stays behind") {
  const std::uint64_t seed = number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t rounds = rounds_from("SIMM_ROUNDS", 40);
  int hits = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    INFO("repeat: SIMM_SEED=" << seed + round
                              << " SIMM_ROUNDS=1 unit_server -tc='random requests*'");
    ServerHistory history(seed + round);
    for (int i = 0; i < 3000; ++i) history.step();
    history.finish();
    hits += history.hits();
  }
  CHECK(hits > 0);  // there are seeds with none
}

}  // namespace simm::server::testing
