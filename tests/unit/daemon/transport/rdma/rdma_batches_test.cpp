// Requests over several rails: shared out by load and speed, whole pages, one answer, and what a
// rail that failed had is asked for over another one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "tests/support/rdma_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace rdma_batches_test {

using namespace local_world;
using support::RdmaEnds;
using support::RdmaEndsConfig;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kPage = 512 * 1024;
constexpr std::uint32_t kPages = 16;
constexpr std::uint64_t kRegionBytes = kPages * kPage;

std::byte byte_of(std::uint32_t page, std::uint64_t at) {
  return static_cast<std::byte>(page * 37 + at * 11 + at / 4096);
}

// A store of kPages objects, named by their number in the page's hash.
struct Store final : ResponderEvents {
  Store() {
    for (std::uint32_t page = 0; page < kPages; ++page) {
      objects[page].resize(kPage);
      for (std::uint64_t at = 0; at < kPage; ++at) objects[page][at] = byte_of(page, at);
    }
  }
  void on_request(Incoming& incoming) noexcept override {
    sizes.push_back(incoming.pages.size());
    open[&incoming] = incoming.pages.size();
    for (std::uint16_t i = 0; i < incoming.pages.size(); ++i) {
      const std::uint64_t page = incoming.pages[i].hash.low;
      if (incoming.header.opcode == ipc::Opcode::put) {
        incoming.responder->pull(incoming, i, put_to[page]);
      } else {
        incoming.responder->push(incoming, i, objects[page], false);
      }
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    if (result.status != Status::ok) status[&incoming] = result.status;
    if (--open[&incoming] > 0) return;
    std::vector<PageReply> replies;
    for (const PageRequest& page : incoming.pages) {
      // The page's number comes back, so that an answer in the wrong place is seen.
      const bool is_get = incoming.header.opcode == ipc::Opcode::get;
      const Status end = status.count(&incoming) != 0 ? status[&incoming] : Status::ok;
      replies.push_back({end, is_get ? kPage : page.hash.low});
    }
    status.erase(&incoming);
    incoming.responder->reply(incoming, replies);
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming& incoming) noexcept override {
    ++aborted;
    status.erase(&incoming);
  }
  std::size_t moving() const {  // pages
    std::size_t pages = 0;
    for (const auto& [incoming, left] : open) pages += left;
    return pages;
  }
  std::array<std::vector<std::byte>, kPages> objects;
  std::array<std::vector<std::byte>, kPages> put_to = make_room();
  std::vector<std::size_t> sizes;  // of requests, in pages
  std::map<Incoming*, std::size_t> open;
  std::map<Incoming*, Status> status;
  int aborted = 0;

private:
  static std::array<std::vector<std::byte>, kPages> make_room() {
    std::array<std::vector<std::byte>, kPages> room;
    for (auto& page : room) page.resize(kPage);
    return room;
  }
};

struct Scene {
  explicit Scene(const RdmaEndsConfig& config = {}) : ends(config), memory(kRegionBytes) {
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(store);
    ends.keys.add(memory.region);
  }
  void dial_both() {
    ends.dial(kRoute, 0);
    ends.dial(kRoute, 1);
    for (int i = 0; i < 20; ++i) ends.turn();
  }
  Status post(ipc::Opcode opcode, std::uint32_t pages = kPages, RequestToken token = 1,
              base::TenantId tenant = {}) {
    asks.push_back(std::make_unique<Ask>(memory.region, opcode, pages, kPage));
    asks.back()->request.header.tenant = tenant;
    for (std::uint32_t page = 0; page < pages; ++page) asks.back()->list[page].hash.low = page;
    return ends.requester.post(kRoute, token, asks.back()->request);
  }
  bool is_answered() {
    return ends.turn_until([&] { return !answers.replied.empty() || !answers.fenced.empty(); },
                           50'000);
  }
  void check_slices() {
    for (std::uint32_t page = 0; page < kPages; ++page) {
      REQUIRE(std::equal(store.objects[page].begin(), store.objects[page].end(),
                         memory.region.base + page * kPage));
    }
  }
  std::uint64_t asked_again() { return ends.counters.value("asking.asked_again"); }

  std::vector<std::unique_ptr<Ask>> asks;
  Answers answers;
  Store store;
  RdmaEnds ends;
  TestRegion memory;
};

TEST_CASE("rdma batches: a long get goes over both rails, and is answered once") {
  Scene scene;
  scene.dial_both();
  REQUIRE(scene.post(ipc::Opcode::get) == Status::ok);
  REQUIRE(scene.is_answered());
  CHECK(scene.store.sizes == std::vector<std::size_t>{kPages / 2, kPages / 2});
  REQUIRE(scene.answers.replied == std::vector<RequestToken>{1});
  REQUIRE(scene.answers.last.size() == kPages);
  for (const PageReply& reply : scene.answers.last) {
    CHECK(reply.status == Status::ok);
    CHECK(reply.bytes == kPage);
  }
  scene.check_slices();
  CHECK(scene.asked_again() == 0);
}

TEST_CASE("rdma batches: a put's answers come back in the order of its pages") {
  Scene scene;
  scene.dial_both();
  for (std::uint32_t page = 0; page < kPages; ++page) {
    std::memset(scene.memory.region.base + page * kPage, static_cast<int>(page + 1), kPage);
  }
  REQUIRE(scene.post(ipc::Opcode::put) == Status::ok);
  REQUIRE(scene.is_answered());
  REQUIRE(scene.answers.last.size() == kPages);
  for (std::uint32_t page = 0; page < kPages; ++page) {
    CHECK(scene.answers.last[page].bytes == page);
    CHECK(std::all_of(scene.store.put_to[page].begin(), scene.store.put_to[page].end(),
                      [page](std::byte b) { return b == static_cast<std::byte>(page + 1); }));
  }
}

TEST_CASE("rdma batches: short requests stay whole, and take turns") {
  Scene scene;
  scene.dial_both();
  REQUIRE(scene.post(ipc::Opcode::get, 1, 1) == Status::ok);
  REQUIRE(scene.post(ipc::Opcode::get, 1, 2) == Status::ok);
  REQUIRE(scene.ends.turn_until([&] { return scene.answers.replied.size() == 2; }, 50'000));
  CHECK(scene.store.sizes == std::vector<std::size_t>{1, 1});
}

TEST_CASE("rdma batches: tenants take turns on a link by weight, however many requests one has") {
  constexpr base::TenantId kRed{1};
  constexpr base::TenantId kBlue{2};
  std::uint64_t moved[2] = {};
  for (const std::uint32_t weight : {1u, 4u}) {
    RdmaEndsConfig config;
    config.serving.weights = base::TenantWeights({{kBlue, weight}});
    Scene scene(config);
    scene.ends.dial(kRoute, 0);
    for (int i = 0; i < 20; ++i) scene.ends.turn();
    for (RequestToken token = 1; token < 8; ++token) {
      REQUIRE(scene.post(ipc::Opcode::get, kPages, token, kRed) == Status::ok);
    }
    REQUIRE(scene.post(ipc::Opcode::get, kPages, 8, kBlue) == Status::ok);
    REQUIRE(scene.ends.turn_until([&] { return !scene.answers.replied.empty(); }, 50'000));
    CHECK(scene.answers.replied == std::vector<RequestToken>{8});
    moved[weight == 1 ? 0 : 1] = scene.ends.counters.value("serving.written_bytes");
  }
  // As much as blue's, or less than that; and what was on its way before blue came.
  constexpr std::uint64_t kBefore = kBytesPostedMax + 2 * kPage;
  CHECK(moved[0] <= 2 * kRegionBytes + kBefore);
  CHECK(moved[1] + kRegionBytes / 4 <= moved[0]);
}

TEST_CASE("rdma batches: a rail of three times the speed gets three times the bytes") {
  RdmaEndsConfig config;
  config.asking.rails = {{300'000}, {100'000}};
  Scene scene(config);
  scene.dial_both();
  REQUIRE(scene.post(ipc::Opcode::get) == Status::ok);
  REQUIRE(scene.is_answered());
  std::sort(scene.store.sizes.begin(), scene.store.sizes.end());
  CHECK(scene.store.sizes == std::vector<std::size_t>{kPages / 4, kPages * 3 / 4});
}

TEST_CASE("rdma batches: what a get had on a rail that failed goes over the other one") {
  for (const int turns : {0, 3, 10}) {
    CAPTURE(turns);
    Scene scene;
    scene.dial_both();
    REQUIRE(scene.post(ipc::Opcode::get) == Status::ok);
    for (int i = 0; i < turns; ++i) scene.ends.turn();
    REQUIRE(scene.answers.replied.empty());
    scene.ends.asking_devices[1]->fail_queue_pair(scene.ends.asking_numbers[2]);
    REQUIRE(scene.is_answered());
    REQUIRE(scene.answers.replied == std::vector<RequestToken>{1});
    CHECK(scene.answers.fenced.empty());
    for (const PageReply& reply : scene.answers.last) CHECK(reply.status == Status::ok);
    scene.check_slices();
    CHECK(scene.asked_again() == 1);
  }
}

// It may have been done, and another put have taken its place since.
TEST_CASE("rdma batches: a put is not asked again when a rail fails that had a part of it") {
  for (const int turns : {0, 3, 10}) {
    CAPTURE(turns);
    Scene scene;
    scene.dial_both();
    REQUIRE(scene.post(ipc::Opcode::put) == Status::ok);
    for (int i = 0; i < turns; ++i) scene.ends.turn();
    REQUIRE(scene.answers.replied.empty());
    scene.ends.asking_devices[1]->fail_queue_pair(scene.ends.asking_numbers[2]);
    REQUIRE(scene.is_answered());
    CHECK(scene.answers.fenced == std::vector<RequestToken>{1});
    CHECK(scene.answers.replied.empty());
    CHECK(scene.asked_again() == 0);
  }
}

// Some devices need seconds for a fence.
TEST_CASE("rdma batches: while a rail is being fenced the other one goes on, and its pages wait") {
  for (const bool is_server : {false, true}) {
    CAPTURE(is_server);
    Scene scene;
    scene.dial_both();
    RdmaEnds& ends = scene.ends;
    sim::SimRdmaDevice& device = is_server ? *ends.serving_device : *ends.asking_devices[1];
    device.hold_fences(true);
    REQUIRE(scene.post(ipc::Opcode::get) == Status::ok);
    for (int i = 0; i < 3; ++i) ends.turn();
    device.fail_queue_pair(is_server ? ends.serving_numbers[2] : ends.asking_numbers[2]);
    if (!is_server) {
      for (int i = 0; i < 500; ++i) ends.turn();
      CHECK(scene.answers.replied.empty());
      CHECK(scene.asked_again() == 0);
      CHECK(ends.lost_by_requester().empty());
      CHECK(ends.requester.prepare_sleep());
      CHECK(ends.requester.next_deadline_ns() == ends.clock.now_ns() + base::kNsPerMs);
    }
    REQUIRE(scene.post(ipc::Opcode::get, 1, 2) == Status::ok);
    const auto has_answer = [&](RequestToken token) {
      const auto& replied = scene.answers.replied;
      return std::find(replied.begin(), replied.end(), token) != replied.end();
    };
    REQUIRE(ends.turn_until([&] { return has_answer(2); }, 50'000));
    if (is_server) {
      // Its requester hears nothing, fences its own end, and asks again.
      for (int i = 0; i < 5; ++i) {
        ends.clock.advance_ns(100 * base::kNsPerMs);
        for (int turns = 0; turns < 100; ++turns) ends.turn();
      }
      REQUIRE(ends.turn_until([&] { return has_answer(1); }, 50'000));
      CHECK(scene.store.moving() == kPages / 2);
      CHECK(RdmaEnds::take_lost(ends.responder_mail).empty());
      CHECK(ends.responder.prepare_sleep());
      CHECK(ends.responder.next_deadline_ns() <= ends.clock.now_ns() + base::kNsPerMs);
    }
    device.hold_fences(false);
    REQUIRE(ends.turn_until([&] { return has_answer(1); }, 50'000));
    for (int i = 0; i < 10; ++i) ends.turn();
    CHECK(scene.asked_again() == 1);
    CHECK(scene.answers.fenced.empty());
    CHECK(scene.store.moving() == 0);
    CHECK(RdmaEnds::take_lost(is_server ? ends.responder_mail : ends.requester_mail).size() == 1);
    scene.check_slices();
  }
}

TEST_CASE("rdma batches: while a part waits for a credit its agent may sleep") {
  RdmaEndsConfig config;
  config.asking.credits = 1;
  Scene scene(config);
  scene.dial_both();
  RdmaEnds& ends = scene.ends;
  ends.hold_to_server(0);
  REQUIRE(scene.post(ipc::Opcode::get) == Status::ok);
  ends.turn();
  ends.asking_devices[1]->fail_queue_pair(ends.asking_numbers[2]);
  REQUIRE(ends.turn_until([&] { return scene.asked_again() == 1; }));
  for (int i = 0; i < 10; ++i) ends.turn();
  CHECK(ends.requester.do_work() == 0);
  CHECK(ends.requester.prepare_sleep());
  CHECK(ends.requester.next_deadline_ns() == ends.clock.now_ns() + base::kNsPerMs);
  ends.release_to_server(0);
  REQUIRE(scene.is_answered());
  CHECK(scene.answers.replied == std::vector<RequestToken>{1});
  scene.check_slices();
}

TEST_CASE("rdma batches: without another rail the engine is told, once") {
  Scene scene;
  scene.dial_both();
  REQUIRE(scene.post(ipc::Opcode::get) == Status::ok);
  scene.ends.asking_devices[0]->fail_queue_pair(scene.ends.asking_numbers[1]);
  scene.ends.asking_devices[1]->fail_queue_pair(scene.ends.asking_numbers[2]);
  REQUIRE(scene.is_answered());
  CHECK(scene.answers.fenced == std::vector<RequestToken>{1});
  CHECK(scene.answers.replied.empty());
  // The place is free again.
  scene.dial_both();
  REQUIRE(scene.post(ipc::Opcode::get, kPages, 2) == Status::ok);
  REQUIRE(scene.ends.turn_until([&] { return !scene.answers.replied.empty(); }, 50'000));
  CHECK(scene.answers.replied == std::vector<RequestToken>{2});
  scene.check_slices();
}

TEST_CASE("rdma batches: a reset breaks every rail that the request is on, and fences it once") {
  Scene scene;
  scene.dial_both();
  REQUIRE(scene.post(ipc::Opcode::get) == Status::ok);
  scene.ends.turn();
  scene.ends.requester.reset(kRoute, 1);
  REQUIRE(scene.is_answered());
  CHECK(scene.answers.fenced == std::vector<RequestToken>{1});
  CHECK(scene.asked_again() == 0);
  // Nothing of it comes afterwards.
  std::memset(scene.memory.region.base, 0x5a, kRegionBytes);
  for (int i = 0; i < 300; ++i) scene.ends.turn();
  CHECK(std::all_of(scene.memory.region.base, scene.memory.region.base + kRegionBytes,
                    [](std::byte b) { return b == std::byte{0x5a}; }));
  CHECK(scene.ends.lost_by_requester().size() == 2);
}

TEST_CASE("rdma batches: a request that is reset while it waits for its second link is fenced") {
  Scene scene;
  scene.dial_both();
  REQUIRE(scene.post(ipc::Opcode::get, 1) == Status::ok);
  scene.ends.asking_devices[0]->fail_queue_pair(scene.ends.asking_numbers[1]);
  REQUIRE(scene.ends.turn_until([&] { return scene.asked_again() == 1; }));
  scene.ends.requester.reset(kRoute, 1);
  REQUIRE(scene.is_answered());
  CHECK(scene.answers.fenced == std::vector<RequestToken>{1});
  CHECK(scene.answers.replied.empty());
}

TEST_CASE("rdma batches: a cancel reaches all parts, and there is one answer") {
  Scene scene;
  scene.dial_both();
  REQUIRE(scene.post(ipc::Opcode::get) == Status::ok);
  scene.ends.turn();
  scene.ends.requester.cancel(kRoute, 1);
  REQUIRE(scene.is_answered());
  CHECK(scene.answers.replied == std::vector<RequestToken>{1});
  const auto cancelled =
      std::count_if(scene.answers.last.begin(), scene.answers.last.end(),
                    [](const PageReply& reply) { return reply.status == Status::cancelled; });
  CHECK(cancelled == kPages);
}

TEST_CASE("rdma batches: a short request goes over a rail that knows its memory") {
  for (const int unknown : {0, 1}) {
    CAPTURE(unknown);
    Scene scene;
    scene.dial_both();
    scene.ends.keys.unknown_rail = unknown;
    // Also while the rail that knows it has more to do.
    for (RequestToken token = 1; token <= 8; ++token) {
      CHECK(scene.post(ipc::Opcode::get, 1, token) == Status::ok);
    }
    REQUIRE(scene.ends.turn_until([&] { return scene.answers.replied.size() == 8; }, 50'000));
  }
}

TEST_CASE("rdma batches: bytes stay on the rails of their memory's NUMA node") {
  RdmaEndsConfig config;
  config.asking.rails = {{0, 0}, {0, 1}};
  for (const std::int16_t node : {std::int16_t{0}, std::int16_t{1}}) {
    CAPTURE(node);
    Scene scene(config);
    scene.memory.region.numa_node = node;
    scene.dial_both();
    REQUIRE(scene.post(ipc::Opcode::get) == Status::ok);
    REQUIRE(scene.is_answered());
    CHECK(scene.store.sizes == std::vector<std::size_t>{kPages});
    scene.check_slices();
    // Of memory of an unknown node both rails move a part.
    scene.memory.region.numa_node = -1;
    REQUIRE(scene.post(ipc::Opcode::get, kPages, 2) == Status::ok);
    REQUIRE(scene.ends.turn_until([&] { return scene.answers.replied.size() == 2; }, 50'000));
    CHECK(scene.store.sizes.size() == 3);
  }
}

TEST_CASE("rdma batches: a far rail is asked to know memory only where the near one can not") {
  RdmaEndsConfig config;
  config.asking.rails = {{0, 0}, {0, 1}};
  Scene scene(config);
  scene.memory.region.numa_node = 0;
  scene.dial_both();
  scene.ends.keys.knows_remote = false;
  CHECK(scene.post(ipc::Opcode::get, 1) == Status::unsupported);
  CHECK(scene.ends.keys.wishes == std::array<std::uint32_t, 2>{1, 0});
  scene.ends.keys.failed_rail = 0;
  CHECK(scene.post(ipc::Opcode::get, 1) == Status::unsupported);
  CHECK(scene.ends.keys.wishes[1] == 1);
  // The far one carries it as soon as it knows it.
  scene.ends.keys.knows_remote = true;
  CHECK(scene.post(ipc::Opcode::get, 1) == Status::ok);
  REQUIRE(scene.is_answered());
}

}  // namespace rdma_batches_test
