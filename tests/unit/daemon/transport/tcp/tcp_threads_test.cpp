// The TCP transport as it runs: two agents on threads of their own, which sleep when there is
// nothing to do, ask each other over real connections, cancel and reset at random, and a control
// thread that dials what was lost. No slice is touched after its answer, and no wake-up is lost.
// Repeat with SIMM_SEED=<seed>; SIMM_ROUNDS=<n> runs longer.
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "daemon/base/agent_runner.h"
#include "daemon/base/random.h"
#include "daemon/base/real_clock.h"
#include "daemon/transport/tcp/tcp_requester.h"
#include "daemon/transport/tcp/tcp_responder.h"
#include "tests/support/number_from.h"
#include "tests/support/tcp_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace tcp_threads_test {

using namespace local_world;
using ipc::Opcode;

constexpr std::uint64_t kSlice = 4096;
constexpr std::uint64_t kLong = 400'000;
constexpr std::uint32_t kSlices = 16;
constexpr Route kPeer{base::PeerId{1}, 0};
// No peer dies of a busy machine.
constexpr base::TimeNs kPatienceNs = 600 * base::kNsPerSecond;

// Every get reads the same extent; every put has its own.
struct PageServer final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    const std::uint64_t length = incoming.pages[0].slice.length;
    if (incoming.header.opcode == Opcode::put) {
      incoming.responder->pull(incoming, 0, std::span(sinks[&incoming] = Bytes(length)));
    } else {
      incoming.responder->push(incoming, 0, std::span(extent).first(length), true);
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    const std::uint64_t length = incoming.pages[0].slice.length;
    if (result.status == Status::corrupt) ++wrong;
    sinks.erase(&incoming);
    const PageReply reply{result.status, result.status == Status::ok ? length : 0};
    incoming.responder->reply(incoming, {&reply, 1});
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override { ++wrong; }  // its one move ends before
  using Bytes = std::vector<std::byte>;
  Bytes extent = Bytes(kLong);
  std::map<Incoming*, Bytes> sinks;
  std::uint64_t wrong = 0;
};

// Sleeps until it is woken, or for so long that it was forgotten.
class PatientWaiter final : public base::Waiter {
public:
  void announce() noexcept override { inner_.announce(); }
  void retract() noexcept override { inner_.retract(); }
  void wait_until(base::TimeNs) noexcept override {
    // In naps: a process that was stopped for long has slept one of them.
    for (int nap = 0; nap < kNaps; ++nap) {
      const base::TimeNs end_ns = clock_.now_ns() + base::kNsPerSecond;
      inner_.wait_until(end_ns);
      if (clock_.now_ns() < end_ns) return;
    }
    ++overslept;
  }
  Outcome watch(int descriptor, base::FdWatch& handler) override {
    return inner_.watch(descriptor, handler);
  }
  void unwatch(int descriptor) noexcept override { inner_.unwatch(descriptor); }
  void wake() noexcept override { inner_.wake(); }

  std::uint64_t overslept = 0;

private:
  static constexpr int kNaps = 30;
  base::RealClock clock_;
  base::EpollWaiter inner_{clock_};
};

class Side final : public RequesterEvents, public base::Agent {
public:
  Side(SocketIoChoice choice, char letter, char peer_letter, std::uint64_t seed, std::uint64_t asks)
      : random_(seed),
        asks_(asks),
        peer_byte_(static_cast<std::byte>(peer_letter)),
        memory_(kSlices * kLong),
        io_(make_socket_io(choice, &waiter_).value()),
        requester_(requester_config(), clock_, *io_, mover_, own_roster_, requester_mail),
        responder_(responder_config(), clock_, *io_, requester_rosters_, responder_mail) {
    std::fill(server.extent.begin(), server.extent.end(), static_cast<std::byte>(letter));
    requester_.connect(*this, nullptr);
    responder_.connect(server);
    for (std::uint64_t i = 0; i < kSlices; ++i) free_slices_.push_back(i * kLong);
    runner.add(*this);
  }

  // base::Agent.
  int do_work() noexcept override {
    int work = responder_.do_work();
    work += requester_.do_work();
    if (answered < asks_) work += give_one_up() + ask_one();
    if (answered >= asks_ && open_.empty()) settled.store(true);
    return work + responder_.run_moves();
  }
  base::TimeNs next_deadline_ns() const noexcept override {
    return std::min(requester_.next_deadline_ns(), responder_.next_deadline_ns());
  }
  bool prepare_sleep() noexcept override {
    const bool may_sleep = requester_.prepare_sleep();
    return responder_.prepare_sleep() && may_sleep;
  }
  const char* name() const noexcept override { return "tcp-side"; }

  void on_reply(RequestToken token, std::span<const PageReply> pages) noexcept override {
    const Open& at = open_.at(token);
    if (at.was_reset) ++wrong;
    const memory::Slice slice = at.ask->list[0].slice;
    const std::byte* bytes = memory_.region.base + slice.offset;
    if (pages[0].status != Status::ok && pages[0].status != Status::cancelled) ++wrong;
    const bool ok = pages[0].status == Status::ok;
    const std::byte wanted = at.is_put ? at.own : peer_byte_;
    for (std::uint64_t i = 0; ok && i < slice.length; ++i) wrong += bytes[i] != wanted;
    finish(token);
  }
  void on_fenced(RequestToken token, FenceCause) noexcept override { finish(token); }

  std::uint64_t wrong = 0;
  std::uint64_t answered = 0;
  std::uint64_t overslept() const { return waiter_.overslept; }
  std::atomic<bool> settled{false};
  PageServer server;

private:
  struct Open {
    std::unique_ptr<Ask> ask;
    bool was_reset = false;
    bool is_put = false;
    std::byte own{};
  };
  static TcpRequesterConfig requester_config() {
    TcpRequesterConfig config;
    config.links_max = 4;
    config.credits = 8;
    config.peer_detection_ns = kPatienceNs;
    return config;
  }
  static TcpResponderConfig responder_config() {
    TcpResponderConfig config;
    config.links_max = 8;
    config.credits = 8;
    config.peer_silence_ns = 3 * kPatienceNs;
    return config;
  }

  // The memory is ours again at once, and must stay as we leave it.
  void finish(RequestToken token) {
    const memory::Slice slice = open_.at(token).ask->list[0].slice;
    std::memset(memory_.region.base + slice.offset, 0, slice.length);
    free_slices_.push_back(slice.offset);
    open_.erase(token);
    ++answered;
  }
  // How much it did: whoever did something may not sleep yet.
  int give_one_up() {
    if (open_.empty() || !random_.one_in(30)) return 0;
    auto& [token, at] = *open_.begin();
    if (random_.one_in(2)) {
      requester_.cancel(kPeer, token);
    } else {
      requester_.reset(kPeer, token);
      at.was_reset = true;
    }
    return 1;
  }
  int ask_one() {
    if (free_slices_.empty()) return 0;
    Open made;
    const std::uint64_t offset = free_slices_.back();
    for (std::uint64_t i = 0; i < kLong; i += 997) {
      const bool is_own = memory_.region.base[offset + i] == std::byte{0};
      wrong += is_own ? 0 : 1;  // written after its last answer
    }
    const std::uint64_t length = random_.one_in(8) ? kLong : kSlice;
    made.is_put = random_.one_in(2);
    made.own = static_cast<std::byte>(random_.next());
    std::memset(memory_.region.base + offset, static_cast<int>(made.own), length);
    made.ask = std::make_unique<Ask>(memory_.region, made.is_put ? Opcode::put : Opcode::get, 1,
                                     length, offset);
    const RequestToken token = next_token_++;
    if (requester_.post(kPeer, token, made.ask->request) != Status::ok) {
      std::memset(memory_.region.base + offset, 0, length);
      return 0;
    }
    free_slices_.pop_back();
    open_.emplace(token, std::move(made));
    return 1;
  }

  base::SeededRandom random_;
  const std::uint64_t asks_;
  const std::byte peer_byte_;
  std::map<RequestToken, Open> open_;
  std::vector<std::uint64_t> free_slices_;
  RequestToken next_token_ = 1;
  TestRegion memory_;
  base::RealClock clock_;
  PatientWaiter waiter_;
  RegionMover mover_;

public:
  TcpLinkMailbox requester_mail{16, &waiter_};
  TcpLinkMailbox responder_mail{16, &waiter_};

private:
  std::unique_ptr<SocketIo> io_;
  OwnRoster own_roster_{requester_config().links_max};
  RequesterRosters requester_rosters_{responder_config().links_max};
  TcpRequester requester_;
  TcpResponder responder_;
  base::CounterSet counters_;

public:
  base::AgentRunner runner{"tcp-side", clock_, waiter_, {base::WaitMode::event, 0}, counters_};
};

void dial(Side& from, Side& to, std::uint64_t name) {
  support::UniqueFd asking;
  support::UniqueFd serving;
  support::tcp_pair(asking, serving);
  TcpLink left{std::move(asking), kPeer.peer, kPeer.shard, name};
  TcpLink right{std::move(serving), {2}, kPeer.shard, name};
  REQUIRE(from.requester_mail.control_add(left));
  REQUIRE(to.responder_mail.control_add(right));
}

void run_both(SocketIoChoice choice, std::uint64_t seed, std::uint64_t asks) {
  Side sides[2] = {{choice, 'A', 'B', seed, asks}, {choice, 'B', 'A', seed + 1, asks}};
  std::uint64_t links = 0;
  for (int i = 0; i < 4; ++i) dial(sides[i % 2], sides[1 - i % 2], ++links);
  std::thread threads[2] = {std::thread([&] { sides[0].runner.run(); }),
                            std::thread([&] { sides[1].runner.run(); })};
  const auto is_over = [&] { return sides[0].settled.load() && sides[1].settled.load(); };
  while (!is_over()) {
    for (int i = 0; i < 2; ++i) {
      LinkLost lost;
      while (sides[i].responder_mail.control_take_lost(lost)) {
      }
      while (sides[i].requester_mail.control_take_lost(lost)) {
        CAPTURE(static_cast<int>(lost.cause));
        CHECK((lost.cause == LinkLoss::reset || lost.cause == LinkLoss::closed));
        dial(sides[i], sides[1 - i], ++links);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (Side& side : sides) side.runner.request_stop();
  for (std::thread& thread : threads) thread.join();
  CHECK(links > 4);  // some were reset
  for (Side& side : sides) {
    CHECK(side.wrong == 0);
    CHECK(side.server.wrong == 0);
    CHECK(side.overslept() == 0);
    CHECK(side.answered >= asks);
  }
}

TEST_CASE("tcp threads: two agents that sleep ask each other, cancel and reset") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  // A round is a hundredth of a run.
  const std::uint64_t asks = 15 * simm::test_support::rounds_from("SIMM_ROUNDS", 100);
  INFO("repeat: SIMM_SEED=" << seed << " unit_transport -tc='tcp threads*'");
  memory::FaultGuard::install();
  for (const SocketIoChoice choice : support::io_choices()) {
    CAPTURE(static_cast<int>(choice));
    run_both(choice, seed, asks);
  }
}

}  // namespace tcp_threads_test
