// A requester that lives, and whose device lets READs and WRITEs wait: its link ends, and no other.
// One that is slow keeps it.
#include <doctest/doctest.h>

#include "tests/support/rdma_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace rdma_stall_test {

using namespace local_world;
using support::RdmaEnds;
using support::RdmaEndsConfig;
using Losses = RdmaEnds::Losses;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr Route kOther{base::PeerId{2}, 0};
constexpr std::uint64_t kPage = 8 << 20;
constexpr std::uint64_t kShort = 256 * 1024;
constexpr base::TimeNs kStepNs = 20 * base::kNsPerMs;
constexpr base::TimeNs kBoundNs = base::kNsPerSecond;  // peer_silence_ns

struct MovingServer final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    const auto all = std::span(extent).first(incoming.pages[0].slice.length);
    if (incoming.header.opcode == ipc::Opcode::put) {
      incoming.responder->pull(incoming, 0, all);
    } else {
      incoming.responder->push(incoming, 0, all, false);
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    ++moved;
    const PageReply reply{result.status, incoming.pages[0].slice.length};
    incoming.responder->reply(incoming, {&reply, 1});
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override { ++aborted; }
  std::vector<std::byte> extent = std::vector<std::byte>(kPage);
  int moved = 0;
  int aborted = 0;
};

struct Scene {
  Scene() : memory(4 * kPage) {
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(server);
    ends.keys.add(memory.region);
    slow = ends.dial(kRoute, 0);
    ends.dial(kOther, 1);
    turns(20);
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) ends.turn();
  }
  void ask(RequestToken token, ipc::Opcode opcode, Route route, std::uint64_t length,
           base::TimeNs deadline_ns = 0) {
    asks.push_back(std::make_unique<Ask>(memory.region, opcode, 1, length, token * kPage));
    asks.back()->request.header.deadline_ns = deadline_ns;
    REQUIRE(ends.requester.post(route, token, asks.back()->request) == Status::ok);
  }
  void mute(bool is_mute) {
    if (is_mute) ends.fabric.hold_answers(*ends.asking_devices[0]);
    if (!is_mute) ends.fabric.release_answers(*ends.asking_devices[0]);
  }
  std::uint64_t bytes_moved() const {
    return ends.fabric.counters().read_bytes + ends.fabric.counters().written_bytes;
  }
  // Until something got on.
  void let_some() {
    const std::uint64_t before = bytes_moved();
    mute(false);
    REQUIRE(ends.turn_until([&] { return bytes_moved() > before + kShort; }));
    mute(true);
  }
  // Lets time pass until a link is lost by the server, at most so much; how much it was.
  template <typename Each>
  base::TimeNs pass(base::TimeNs most_ns, Each&& each_step) {
    const base::TimeNs begin_ns = ends.clock.now_ns();
    while (lost.empty() && ends.clock.now_ns() - begin_ns < most_ns) {
      ends.clock.advance_ns(kStepNs);
      each_step();
      turns(4);
      lost = ends.lost_by_server();
    }
    return ends.clock.now_ns() - begin_ns;
  }
  std::vector<std::unique_ptr<Ask>> asks;
  Answers answers;
  MovingServer server;
  RdmaEnds ends;
  TestRegion memory;
  std::uint64_t slow = 0;
  Losses lost;
};

TEST_CASE("rdma stall: moves that get no answer end their link, however much is pinged") {
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get}) {
    CAPTURE(static_cast<int>(opcode));
    Scene scene;
    scene.mute(true);
    scene.ask(1, opcode, kRoute, kPage);
    std::size_t asked = 0;
    const base::TimeNs took_ns = scene.pass(10 * kBoundNs, [&] {
      // The other peer's go on meanwhile.
      scene.ask(2, opcode, kOther, kShort);
      ++asked;
      REQUIRE(scene.ends.turn_until([&] { return scene.answers.replied.size() == asked; }));
    });
    CHECK(scene.lost == Losses{{scene.slow, LinkLoss::stalled}});
    CHECK(took_ns >= kBoundNs);
    CHECK(took_ns <= kBoundNs + 2 * kStepNs);
    CHECK(scene.server.moved == static_cast<int>(asked) + 1);
    CHECK(scene.server.aborted == 0);  // it was answered, to nobody
  }
}

TEST_CASE("rdma stall: an asker that is slow keeps its link") {
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get}) {
    CAPTURE(static_cast<int>(opcode));
    Scene scene;
    scene.mute(true);
    scene.ask(1, opcode, kRoute, kPage);
    int steps = 0;
    (void)scene.pass(5 * kBoundNs, [&] {
      if (++steps % 40 == 0) scene.let_some();
    });
    CHECK(scene.lost.empty());
    CHECK(scene.server.moved == 0);
  }
}

TEST_CASE("rdma stall: moves long after their request's deadline end its link") {
  Scene scene;
  scene.mute(true);
  scene.ask(1, ipc::Opcode::put, kRoute, kPage, scene.ends.clock.now_ns() + 2 * kBoundNs);
  int steps = 0;
  const base::TimeNs took_ns = scene.pass(10 * kBoundNs, [&] {
    if (++steps % 20 == 0) scene.let_some();
  });
  CHECK(scene.lost == Losses{{scene.slow, LinkLoss::stalled}});
  CHECK(took_ns >= 3 * kBoundNs);
  CHECK(took_ns <= 3 * kBoundNs + kBoundNs / 3 + 2 * kStepNs);
}

}  // namespace rdma_stall_test
