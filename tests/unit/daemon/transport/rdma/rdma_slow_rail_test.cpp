// A rail that is slow, as soft RoCE is: what waits in it is short enough for life signs behind it.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "tests/support/rdma_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace rdma_slow_rail_test {

using namespace local_world;
using support::RdmaEnds;
using support::RdmaEndsConfig;

constexpr std::uint16_t kLinks = 8;
constexpr std::uint32_t kPages = 2;
constexpr std::uint64_t kPage = 4'500'000;  // as keys and values of one layer
constexpr std::uint64_t kRegionBytes = kLinks * kPages * kPage;
constexpr base::TimeNs kTurnNs = base::kNsPerMs;

// Two steps are a turn, and a turn is a millisecond: 25 MB/s.
RdmaEndsConfig slow_ends() {
  RdmaEndsConfig config;
  config.steps_per_turn = 1;
  config.asking.links_max = config.serving.links_max = kLinks;
  config.asking_device.bytes_per_step = config.serving_device.bytes_per_step = 12'500;
  return config;
}

// Moves all pages of a request at once, each out of and into the same extent.
struct Server final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    open[&incoming] = incoming.pages.size();
    for (std::uint16_t page = 0; page < incoming.pages.size(); ++page) {
      if (incoming.header.opcode == ipc::Opcode::put) {
        incoming.responder->pull(incoming, page, extent);
      } else {
        incoming.responder->push(incoming, page, extent, false);
      }
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    failed += result.status == Status::ok ? 0 : 1;
    if (--open[&incoming] > 0) return;
    const std::vector<PageReply> replies(incoming.pages.size(), {Status::ok, kPage});
    incoming.responder->reply(incoming, replies);
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override {}
  std::vector<std::byte> extent = std::vector<std::byte>(kPage);
  std::map<Incoming*, std::size_t> open;
  int failed = 0;
};

struct Scene {
  explicit Scene(const RdmaEndsConfig& config = slow_ends()) : ends(config), memory(kRegionBytes) {
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(server);
    ends.keys.add(memory.region);
  }
  // Over each link a request for some seconds.
  void ask_all(ipc::Opcode opcode) {
    for (std::uint16_t shard = 0; shard < kLinks; ++shard) ends.dial({base::PeerId{1}, shard});
    for (int i = 0; i < 20; ++i) turn();
    for (std::uint16_t shard = 0; shard < kLinks; ++shard) {
      asks.push_back(
          std::make_unique<Ask>(memory.region, opcode, kPages, kPage, shard * kPages * kPage));
      REQUIRE(ends.requester.post({base::PeerId{1}, shard}, shard, asks.back()->request) ==
              Status::ok);
    }
  }
  void turn() {
    ends.turn();
    ends.clock.advance_ns(kTurnNs);
  }
  // How many turns that took.
  int run(int turns_max) {
    int turns = 0;
    while (answers.replied.size() + answers.fenced.size() < kLinks && turns < turns_max) {
      turn();
      ++turns;
    }
    return turns;
  }
  std::vector<std::unique_ptr<Ask>> asks;
  Answers answers;
  Server server;
  RdmaEnds ends;
  TestRegion memory;
};

// 72 MB at 25 MB/s are some 3 s: ten times what a silent peer lives.
TEST_CASE("rdma slow rail: life signs of many links find their way between long pages") {
  for (const ipc::Opcode opcode : {ipc::Opcode::get, ipc::Opcode::put}) {
    CAPTURE(static_cast<int>(opcode));
    Scene scene;
    scene.ask_all(opcode);
    const int turns = scene.run(20'000);
    CAPTURE(turns);
    CHECK(scene.answers.fenced.empty());
    CHECK(scene.answers.replied.size() == kLinks);
    CHECK(scene.server.failed == 0);
    CHECK(scene.ends.lost_by_requester().empty());
    CHECK(scene.ends.lost_by_server().empty());
    // The rail was busy all the time, but for a few percent.
    CHECK(turns > 2'000);
    CHECK(turns < 4'000);
  }
}

}  // namespace rdma_slow_rail_test
