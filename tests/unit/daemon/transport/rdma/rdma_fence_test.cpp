// The fence of the RDMA transport: behind it nothing that is under way changes the slices, and
// nobody reaches a region that was deregistered.
// Random parts repeat with SIMM_SEED=<seed>.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "daemon/base/random.h"
#include "tests/support/rdma_ends.h"
#include "tests/support/rdma_peer.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace rdma_fence_test {

using namespace local_world;
using support::RdmaEnds;
using support::RdmaEndsConfig;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kPage = 300'000;
constexpr std::uint32_t kPages = 4;
constexpr std::byte kCanary{0x5c};

std::uint64_t seed() {
  const char* text = std::getenv("SIMM_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

// Moves all pages; replies with their lengths.
struct Server final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    left[&incoming] = incoming.pages.size();
    ++requests;
    moving += incoming.pages.size();
    for (std::uint16_t page = 0; page < incoming.pages.size(); ++page) {
      const std::uint64_t length = incoming.pages[page].slice.length;
      if (incoming.header.opcode == ipc::Opcode::put) {
        incoming.responder->pull(incoming, page, std::span(extent).subspan(page * kPage, length));
      } else {
        incoming.responder->push(incoming, page, std::span(extent).first(length), false);
      }
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    statuses.push_back(result.status);
    --moving;
    if (--left[&incoming] > 0) return;
    std::vector<PageReply> replies;
    for (const PageRequest& page : incoming.pages) {
      replies.push_back({result.status, result.status == Status::ok ? page.slice.length : 0});
    }
    incoming.responder->reply(incoming, replies);
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override { ++aborted; }
  std::vector<std::byte> extent = std::vector<std::byte>(kPages * kPage, std::byte{0x77});
  std::vector<Status> statuses;
  std::map<Incoming*, std::size_t> left;  // pages that are moving
  std::size_t moving = 0;                 // of all requests
  int requests = 0;
  int aborted = 0;
};

struct Scene {
  explicit Scene(const RdmaEndsConfig& config = {}, std::uint64_t seam = 0)
      : ends(config), memory(kPages * kPage) {
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(server);
    ends.keys.add(memory.region, seam);
    ends.dial(kRoute);
    ends.turn();
  }
  bool holds(std::byte what) const {
    const std::byte* const from = memory.region.base;
    return std::all_of(from, from + kPages * kPage, [what](std::byte b) { return b == what; });
  }
  void fill(std::byte what) const { std::fill_n(memory.region.base, kPages * kPage, what); }

  Answers answers;
  Server server;
  RdmaEnds ends;
  TestRegion memory;
};

TEST_CASE("rdma fence: packets of a link that was reset never change the slices afterwards") {
  const std::uint64_t first_seed = seed();
  INFO("repeat: SIMM_SEED=" << first_seed << " unit_transport -tc='rdma fence: packets*'");
  base::SeededRandom random(first_seed);
  std::size_t under_way = 0;
  for (int round = 0; round < 60; ++round) {
    RdmaEndsConfig config;
    config.seed = random.next();
    Scene scene(config);
    const Ask ask(scene.memory.region, ipc::Opcode::get, kPages, kPage);
    REQUIRE(scene.ends.requester.post(kRoute, 1, ask.request) == Status::ok);
    const std::uint64_t turns = 1 + random.below(12);
    for (std::uint64_t i = 0; i < turns; ++i) scene.ends.turn();
    scene.ends.hold_to_requester(0);
    for (std::uint64_t i = random.below(3); i > 0; --i) scene.ends.turn();
    if (!scene.answers.replied.empty()) continue;
    under_way +=
        scene.ends.fabric.under_way(*scene.ends.serving_device, *scene.ends.asking_devices[0]);
    scene.ends.requester.reset(kRoute, 1);
    while (scene.answers.fenced.empty()) scene.ends.requester.do_work();
    // From here on they are the client's again. The control thread has not taken the link yet.
    scene.fill(kCanary);
    scene.ends.release_to_requester(0);
    for (int i = 0; i < 100; ++i) scene.ends.turn();
    CHECK(scene.holds(kCanary));
  }
  CHECK(under_way > 0);  // else nothing was tried
}

TEST_CASE("rdma fence: what a server reads for a link that ended never changes its extents") {
  const std::uint64_t first_seed = seed();
  INFO("repeat: SIMM_SEED=" << first_seed << " unit_transport -tc='rdma fence: what a server*'");
  base::SeededRandom random(first_seed);
  int tried = 0;
  for (int round = 0; round < 60; ++round) {
    RdmaEndsConfig config;
    config.seed = random.next();
    Scene scene(config);
    const Ask ask(scene.memory.region, ipc::Opcode::put, kPages, kPage);
    REQUIRE(scene.ends.requester.post(kRoute, 1, ask.request) == Status::ok);
    for (std::uint64_t i = 1 + random.below(12); i > 0; --i) scene.ends.turn();
    scene.ends.hold_to_server(0);
    for (std::uint64_t i = random.below(3); i > 0; --i) scene.ends.turn();
    if (!scene.answers.replied.empty() || scene.server.moving == 0) continue;
    ++tried;
    scene.ends.responder.drop_all();
    scene.ends.responder.do_work();
    CHECK(scene.server.moving == 0);  // every move was reported
    std::fill(scene.server.extent.begin(), scene.server.extent.end(), kCanary);
    scene.ends.release_to_server(0);
    for (int i = 0; i < 100; ++i) scene.ends.turn();
    CHECK(std::all_of(scene.server.extent.begin(), scene.server.extent.end(),
                      [](std::byte b) { return b == kCanary; }));
  }
  CHECK(tried > 10);
}

TEST_CASE("rdma fence: a region that was deregistered behind it can not be reached any more") {
  Scene scene;
  // A second link, of a peer that keeps what it once was told.
  support::RdmaPeer peer(*scene.ends.serving_device, false);
  std::array<wire::RemoteTarget, wire::kTargetsOfPageMax> target;
  REQUIRE(scene.ends.keys.remote(0, {&scene.memory.region, 0, 100}, target) == 1);
  auto made = make_rdma_link(*scene.ends.asking_devices[0], *scene.ends.asking_ports[0], true);
  peer.connect(*made.value()->queue_pair);
  made.value()->peer = base::PeerId{5};
  made.value()->was_heard = true;
  REQUIRE(scene.ends.requester_mail.control_add(*made));

  const Ask ask(scene.memory.region, ipc::Opcode::get, kPages, kPage);
  REQUIRE(scene.ends.requester.post(kRoute, 1, ask.request) == Status::ok);
  scene.ends.turn();
  CHECK(peer.write({target[0].address, target[0].key}, 100, scene.ends.fabric) == WorkStatus::ok);
  scene.ends.requester.reset(kRoute, 1);
  while (scene.answers.fenced.empty()) scene.ends.requester.do_work();
  scene.ends.keys.remove_all();
  scene.fill(kCanary);
  CHECK(peer.write({target[0].address, target[0].key}, 100, scene.ends.fabric) ==
        WorkStatus::remote_access);
  for (int i = 0; i < 100; ++i) scene.ends.turn();
  CHECK(scene.holds(kCanary));
}

// The pages of a request are its engine's again with the first word of its answer.
TEST_CASE("rdma fence: the list of pages is not looked at when the answer was given") {
  constexpr std::size_t kBytes = 4096;
  void* const list =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(list != MAP_FAILED);
  Scene scene;
  Ask ask(scene.memory.region, ipc::Opcode::get, 1, kPage);
  auto* const page = new (list) PageRequest(ask.list[0]);
  ask.request.pages = {page, 1};
  scene.answers.on_answer = [&] { REQUIRE(::mprotect(list, kBytes, PROT_NONE) == 0); };
  REQUIRE(scene.ends.requester.post(kRoute, 1, ask.request) == Status::ok);
  CHECK(scene.ends.turn_until([&] { return scene.answers.replied.size() == 1; }));
  REQUIRE(::mprotect(list, kBytes, PROT_READ | PROT_WRITE) == 0);
  REQUIRE(scene.ends.requester.post(kRoute, 2, ask.request) == Status::ok);
  scene.ends.requester.reset(kRoute, 2);
  for (int i = 0; i < 5; ++i) scene.ends.turn();
  CHECK(scene.answers.fenced == std::vector<RequestToken>{2});
  ::munmap(list, kBytes);
}

// The server's device takes some works and then no more, at any place of a turn.
TEST_CASE("rdma fence: a device that refuses works ends its link, and all moves are told of") {
  for (const std::size_t works : {0u, 1u, 7u, 16u, 30u}) {
    CAPTURE(works);
    RdmaEndsConfig config;
    config.asking.credits = config.serving.credits = 64;
    Scene scene(config);
    for (int i = 0; i < 10; ++i) scene.ends.turn();
    std::vector<std::unique_ptr<Ask>> asks;
    for (RequestToken token = 1; token <= 60; ++token) {
      asks.push_back(std::make_unique<Ask>(scene.memory.region, ipc::Opcode::get, 8, 5000));
      REQUIRE(scene.ends.requester.post(kRoute, token, asks.back()->request) == Status::ok);
    }
    scene.ends.keys.knows_local = false;  // all of them arrive before the first is moved
    REQUIRE(scene.ends.turn_until([&] { return scene.server.requests == 60; }));
    scene.ends.keys.knows_local = true;
    scene.ends.serving_device->refuse_posts(scene.ends.serving_numbers.at(1), works);
    REQUIRE(scene.ends.turn_until([&] { return scene.server.moving == 0; }));
    CHECK(scene.ends.lost_by_server().at(1) == LinkLoss::io_error);
    REQUIRE(scene.ends.turn_until([&] {
      scene.ends.clock.advance_ns(10 * base::kNsPerMs);
      return scene.answers.replied.size() + scene.answers.fenced.size() == 60;
    }));
  }
}

// Where a page lies in two registrations, a link may have taken the first piece only.
TEST_CASE("rdma fence: a cancelled request is over when its last piece is, wherever it was cut") {
  const std::uint64_t first_seed = seed();
  INFO("repeat: SIMM_SEED=" << first_seed << " unit_transport -tc='rdma fence: a cancelled*'");
  base::SeededRandom random(first_seed);
  for (int round = 0; round < 60; ++round) {
    RdmaEndsConfig config;
    config.seed = random.next();
    Scene scene(config, kPage + 100);
    const ipc::Opcode opcode = random.one_in(2) ? ipc::Opcode::put : ipc::Opcode::get;
    const Ask ask(scene.memory.region, opcode, kPages, kPage);
    REQUIRE(scene.ends.requester.post(kRoute, 1, ask.request) == Status::ok);
    for (std::uint64_t i = random.below(12); i > 0; --i) scene.ends.turn();
    scene.ends.requester.cancel(kRoute, 1);
    REQUIRE(scene.ends.turn_until([&] { return scene.answers.replied.size() == 1; }));
    CHECK(scene.server.statuses.size() == kPages);
    CHECK(scene.answers.fenced.empty());
  }
}

}  // namespace rdma_fence_test
