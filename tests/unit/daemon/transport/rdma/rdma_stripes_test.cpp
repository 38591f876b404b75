// Pages that are cut over several rails: one request for the server, one answer for the engine, and
// never bytes of two tries or two objects, whatever fails on the way.
// Random parts repeat with SIMM_SEED=<seed>.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/base/random.h"
#include "tests/support/rdma_ends.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace rdma_stripes_test {

using namespace local_world;
using support::RdmaEnds;
using support::RdmaEndsConfig;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kStripeMin = 256 * 1024;
constexpr std::uint64_t kRegionBytes = 8 << 20;
constexpr std::byte kCanary{0x5c};

std::uint64_t seed() {
  const char* text = std::getenv("SIMM_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::uint64_t object, std::uint64_t length) {
  Bytes bytes(length);
  for (std::uint64_t at = 0; at < length; ++at) {
    bytes[at] = static_cast<std::byte>(object * 41 + at * 7 + at / 3000);
  }
  return bytes;
}

// Objects by the number in the page's hash. A put is stored when all of its page is there.
struct Store final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    ++requests;
    Job& job = jobs[&incoming];
    job = {};
    job.open = incoming.pages.size();
    for (std::uint16_t i = 0; i < incoming.pages.size(); ++i) {
      const PageRequest& page = incoming.pages[i];
      keys.emplace_back(page.key, page.key_bytes);
      if (incoming.header.opcode == ipc::Opcode::put) {
        job.arriving[i].resize(page.slice.length);
        incoming.responder->pull(incoming, i, job.arriving[i]);
      } else {
        incoming.responder->push(incoming, i, objects[page.hash.low], true);
      }
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t i, MoveResult result) noexcept override {
    Job& job = jobs.at(&incoming);
    const std::uint64_t name = incoming.pages[i].hash.low;
    if (incoming.header.opcode == ipc::Opcode::put && result.status == Status::ok) {
      objects[name] = job.arriving[i];
      ++stored;
    }
    const Bytes& object = objects[name];
    if (result.status == Status::ok) {
      bad_digests += result.digest == base::payload_digest(object.data(), object.size()) ? 0 : 1;
    }
    job.replies.resize(incoming.pages.size());
    job.replies[i] = {result.status, result.status == Status::ok ? object.size() : 0};
    if (--job.open > 0) return;
    incoming.responder->reply(incoming, job.replies);
    jobs.erase(&incoming);
  }
  void on_cancel(Incoming&) noexcept override { ++cancels; }
  void on_aborted(Incoming& incoming) noexcept override { jobs.erase(&incoming); }
  struct Job {
    std::size_t open = 0;
    std::map<std::uint16_t, Bytes> arriving;
    std::vector<PageReply> replies;
  };
  std::map<std::uint64_t, Bytes> objects;
  std::map<Incoming*, Job> jobs;
  std::vector<std::string> keys;
  int requests = 0;
  int stored = 0;
  int cancels = 0;
  int bad_digests = 0;
};

RdmaEndsConfig striped_ends(std::uint64_t seed_of_ends = 1) {
  RdmaEndsConfig config;
  config.seed = seed_of_ends;
  config.asking.stripe_bytes_min = kStripeMin;
  return config;
}

struct Scene {
  explicit Scene(const RdmaEndsConfig& config = striped_ends())
      : ends(config), memory(kRegionBytes) {
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(store);
    ends.keys.add(memory.region, kRegionBytes / 3);
    dial_both();
  }
  void dial_both() {
    for (std::uint16_t rail = 0; rail < 2; ++rail) links[rail] = ends.dial(kRoute, rail);
    turns(20);
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) ends.turn();
  }
  // Pages of these lengths in a row, each of the object of its number.
  Status post(RequestToken token, ipc::Opcode opcode, const std::vector<std::uint64_t>& lengths,
              std::uint64_t offset = 0) {
    asks.push_back(std::make_unique<Ask>(memory.region, opcode,
                                         static_cast<std::uint32_t>(lengths.size()), 1));
    Ask& ask = *asks.back();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      ask.list[i].hash.low = i;
      ask.list[i].slice = {&memory.region, offset, lengths[i]};
      offset += lengths[i];
    }
    return ends.requester.post(kRoute, token, ask.request);
  }
  bool is_answered() {
    return ends.turn_until([&] { return !answers.replied.empty() || !answers.fenced.empty(); },
                           20'000);
  }
  bool holds(std::uint64_t offset, const Bytes& what) const {
    return std::equal(what.begin(), what.end(), memory.region.base + offset);
  }
  std::uint64_t asked_again() { return ends.counters.value("asking.asked_again"); }

  std::vector<std::unique_ptr<Ask>> asks;
  Answers answers;
  Store store;
  std::array<std::uint64_t, 2> links{};
  RdmaEnds ends;
  TestRegion memory;
};

TEST_CASE("rdma stripes: a long page of a get comes over both rails, as one request") {
  constexpr std::uint64_t kLong = 1'000'000;
  Scene scene;
  scene.store.objects[0] = bytes_of(3, kLong);
  std::fill_n(scene.memory.region.base, kLong, kCanary);
  scene.ends.hold_to_requester(1);
  REQUIRE(scene.post(1, ipc::Opcode::get, {kLong}) == Status::ok);
  scene.turns(500);
  // The half of the first rail is there, that of the other one is held up, and so is the answer.
  const Bytes& object = scene.store.objects[0];
  CHECK(scene.answers.replied.empty());
  CHECK(std::equal(object.begin(), object.begin() + 500'000, scene.memory.region.base));
  CHECK(scene.memory.region.base[kLong - 1] == kCanary);
  scene.ends.release_to_requester(1);
  REQUIRE(scene.is_answered());
  REQUIRE(scene.answers.replied == std::vector<RequestToken>{1});
  REQUIRE(scene.answers.last.size() == 1);
  CHECK(scene.answers.last[0].status == Status::ok);
  CHECK(scene.answers.last[0].bytes == kLong);
  CHECK(scene.holds(0, object));
  CHECK(scene.store.requests == 1);
  CHECK(scene.store.bad_digests == 0);
  CHECK(scene.store.keys == std::vector<std::string>{"key"});
  CHECK(scene.asked_again() == 0);
}

TEST_CASE("rdma stripes: a long page of a put is stored once, when all of it is there") {
  constexpr std::uint64_t kLong = 1'000'000;
  Scene scene;
  const Bytes what = bytes_of(5, kLong);
  std::copy(what.begin(), what.end(), scene.memory.region.base);
  scene.ends.hold_to_server(1);
  REQUIRE(scene.post(1, ipc::Opcode::put, {kLong}) == Status::ok);
  scene.turns(200);
  CHECK(scene.store.requests == 0);  // a stripe alone is nothing
  scene.ends.release_to_server(1);
  REQUIRE(scene.is_answered());
  CHECK(scene.answers.last[0].status == Status::ok);
  CHECK(scene.answers.last[0].bytes == kLong);
  CHECK(scene.store.objects[0] == what);
  CHECK(scene.store.requests == 1);
  CHECK(scene.store.stored == 1);
  CHECK(scene.store.bad_digests == 0);
}

TEST_CASE("rdma stripes: a page of stripe_bytes_min stays whole, a longer one is cut") {
  for (const std::uint64_t length : {kStripeMin, kStripeMin + 1}) {
    CAPTURE(length);
    Scene scene;
    scene.store.objects[0] = bytes_of(1, length);
    // The link with the least to do is the first one.
    scene.ends.hold_to_server(1);
    REQUIRE(scene.post(1, ipc::Opcode::get, {length}) == Status::ok);
    scene.turns(500);
    CHECK(scene.answers.replied.empty() == (length > kStripeMin));
    scene.ends.release_to_server(1);
    REQUIRE(scene.is_answered());
    CHECK(scene.holds(0, scene.store.objects[0]));
    CHECK(scene.store.requests == 1);
  }
}

TEST_CASE(
    "rdma stripes: short and long pages of a request, and objects shorter than their slices") {
  const std::vector<std::uint64_t> lengths{3000,    700'001, 150'000, 0x80000, 1,
                                           900'000, 20'000,  400'000, 5000};
  const std::vector<std::uint64_t> shorter{3000,    100'000, 150'000, 0x80000, 1,
                                           450'100, 1,       399'999, 0};
  Scene scene;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const Bytes what = bytes_of(i, lengths[i]);
    std::copy(what.begin(), what.end(), scene.memory.region.base + offset);
    offset += lengths[i];
  }
  REQUIRE(scene.post(1, ipc::Opcode::put, lengths) == Status::ok);
  REQUIRE(scene.is_answered());
  REQUIRE(scene.answers.last.size() == lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    CAPTURE(i);
    CHECK(scene.answers.last[i].status == Status::ok);
    CHECK(scene.answers.last[i].bytes == lengths[i]);
    CHECK(scene.store.objects[i] == bytes_of(i, lengths[i]));
    scene.store.objects[i] = bytes_of(i + 50, shorter[i]);
  }
  std::fill_n(scene.memory.region.base, kRegionBytes, kCanary);
  scene.answers.replied.clear();
  REQUIRE(scene.post(2, ipc::Opcode::get, lengths) == Status::ok);
  REQUIRE(scene.is_answered());
  offset = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    CAPTURE(i);
    CHECK(scene.answers.last[i].status == Status::ok);
    CHECK(scene.answers.last[i].bytes == shorter[i]);
    CHECK(scene.holds(offset, bytes_of(i + 50, shorter[i])));
    CHECK(scene.holds(offset + shorter[i], Bytes(lengths[i] - shorter[i], kCanary)));
    offset += lengths[i];
  }
  CHECK(scene.store.requests == 2);
  CHECK(scene.store.bad_digests == 0);
}

TEST_CASE("rdma stripes: where a rail does not know the memory, the page goes whole over another") {
  Scene scene;
  scene.store.objects[0] = bytes_of(1, 1'000'000);
  scene.ends.keys.unknown_rail = 1;
  scene.ends.hold_to_server(1);
  REQUIRE(scene.post(1, ipc::Opcode::get, {1'000'000}) == Status::ok);
  REQUIRE(scene.is_answered());
  CHECK(scene.answers.last[0].bytes == 1'000'000);
  CHECK(scene.holds(0, scene.store.objects[0]));
}

// An end of a link breaks at any time.
TEST_CASE("rdma stripes: whatever breaks, the bytes are those of the object, and stored whole") {
  const std::uint64_t first_seed = seed();
  INFO("repeat: SIMM_SEED=" << first_seed << " unit_transport -tc='rdma stripes: whatever*'");
  base::SeededRandom random(first_seed);
  std::uint64_t again = 0;
  int lost = 0;  // puts
  // Chance decides which rounds break a link while it still carries something: until that has been
  // tried often enough.
  for (int round = 0; round < 80 || ((again <= 20 || lost <= 20) && round < 800); ++round) {
    CAPTURE(round);
    const auto opcode = round % 2 == 0 ? ipc::Opcode::get : ipc::Opcode::put;
    const std::vector<std::uint64_t> lengths{
        300'000 + random.below(900'000), random.below(9000) + 1, 300'000 + random.below(900'000)};
    Scene scene(striped_ends(random.next()));
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const Bytes what = bytes_of(i, lengths[i]);
      if (opcode == ipc::Opcode::get) scene.store.objects[i] = what;
      if (opcode == ipc::Opcode::put) {
        std::copy(what.begin(), what.end(), scene.memory.region.base + offset);
      }
      offset += lengths[i];
    }
    REQUIRE(scene.post(1, opcode, lengths) == Status::ok);
    scene.turns(static_cast<int>(random.below(30)));
    const std::uint64_t link = scene.links[random.below(2)];
    if (random.one_in(2)) {
      scene.ends.serving_device->fail_queue_pair(scene.ends.serving_numbers[link]);
    } else {
      scene.ends.asking_devices[link == scene.links[1] ? 1 : 0]->fail_queue_pair(
          scene.ends.asking_numbers[link]);
    }
    const auto is_over = [&] {
      return !scene.answers.replied.empty() || !scene.answers.fenced.empty();
    };
    for (int i = 0; i < 2000 && !is_over(); ++i) {
      scene.ends.turn();
      scene.ends.clock.advance_ns(base::kNsPerMs);
    }
    REQUIRE(is_over());
    // A put may have been done by the server that was lost: it is not asked again.
    const bool is_lost = opcode == ipc::Opcode::put && !scene.answers.fenced.empty();
    if (is_lost) {
      CHECK(scene.asked_again() == 0);
      ++lost;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const auto stored = scene.store.objects.find(i);
        if (stored == scene.store.objects.end() || stored->second.empty()) continue;
        CHECK(stored->second == bytes_of(i, lengths[i]));
      }
      continue;
    }
    REQUIRE(scene.answers.replied == std::vector<RequestToken>{1});
    CHECK(scene.answers.fenced.empty());
    offset = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const Bytes what = bytes_of(i, lengths[i]);
      CHECK(scene.answers.last[i].status == Status::ok);
      CHECK(scene.answers.last[i].bytes == lengths[i]);
      CHECK(scene.store.objects[i] == what);
      CHECK(scene.holds(offset, what));
      offset += lengths[i];
    }
    CHECK(scene.store.bad_digests == 0);
    again += scene.asked_again();
    scene.turns(50);
    CHECK(scene.store.jobs.empty());
    // A link that was idle when its end broke is found by its next life sign.
    for (int i = 0; i < 3000 && scene.ends.lost_by_requester().empty(); ++i) {
      scene.ends.turn();
      scene.ends.clock.advance_ns(base::kNsPerMs);
    }
    // The place at the server is free again: another one is striped and served.
    scene.dial_both();
    scene.answers.replied.clear();
    const int requests = scene.store.requests;
    REQUIRE(scene.post(2, opcode, lengths) == Status::ok);
    REQUIRE(scene.is_answered());
    CHECK(scene.store.requests == requests + 1);
  }
  CHECK(again > 20);  // else little was tried
  CHECK(lost > 20);
}

TEST_CASE("rdma stripes: behind a reset nothing changes the slices, and the server is told") {
  const std::uint64_t first_seed = seed();
  INFO("repeat: SIMM_SEED=" << first_seed << " unit_transport -tc='rdma stripes: behind*'");
  base::SeededRandom random(first_seed);
  int tried = 0;
  for (int round = 0; round < 40; ++round) {
    Scene scene(striped_ends(random.next()));
    scene.store.objects[0] = bytes_of(1, 1'500'000);
    REQUIRE(scene.post(1, ipc::Opcode::get, {1'500'000}) == Status::ok);
    scene.turns(static_cast<int>(1 + random.below(20)));
    const std::size_t rail = random.below(2);
    scene.ends.hold_to_requester(rail);
    scene.turns(static_cast<int>(random.below(4)));
    if (!scene.answers.replied.empty()) continue;
    ++tried;
    scene.ends.requester.reset(kRoute, 1);
    while (scene.answers.fenced.empty()) scene.ends.requester.do_work();
    CHECK(scene.asked_again() == 0);
    std::fill_n(scene.memory.region.base, kRegionBytes, kCanary);
    scene.ends.release_to_requester(rail);
    for (int i = 0; i < 300; ++i) {
      scene.ends.turn();
      scene.ends.clock.advance_ns(5 * base::kNsPerMs);
    }
    CHECK(std::all_of(scene.memory.region.base, scene.memory.region.base + kRegionBytes,
                      [](std::byte b) { return b == kCanary; }));
    CHECK(scene.store.jobs.empty());
    CHECK(scene.answers.replied.empty());
  }
  CHECK(tried > 10);
}

TEST_CASE("rdma stripes: a cancel has one answer, whichever stripes have come") {
  for (const bool is_gathered : {false, true}) {
    CAPTURE(is_gathered);
    Scene scene;
    scene.store.objects[0] = bytes_of(1, 1'500'000);
    if (!is_gathered) scene.ends.hold_to_server(1);
    REQUIRE(scene.post(1, ipc::Opcode::get, {1'500'000}) == Status::ok);
    scene.turns(is_gathered ? 2 : 30);
    CHECK(scene.store.requests == (is_gathered ? 1 : 0));
    scene.ends.requester.cancel(kRoute, 1);
    scene.turns(30);
    scene.ends.release_to_server(1);
    REQUIRE(scene.is_answered());
    REQUIRE(scene.answers.replied == std::vector<RequestToken>{1});
    CHECK(scene.answers.last[0].status == Status::cancelled);
    CHECK(scene.store.cancels == (is_gathered ? 1 : 0));
    CHECK(scene.store.jobs.empty());
    CHECK(scene.asked_again() == 0);
  }
}

// Its bytes are all there and are being digested; the queue pairs stay for as long as their device
// likes.
TEST_CASE("rdma stripes: a put that was given up is not stored behind a later one") {
  constexpr std::uint64_t kLong = 7 << 20;
  constexpr std::uint64_t kShort = 4096;
  Scene scene;
  RdmaEnds& ends = scene.ends;
  std::fill_n(scene.memory.region.base, kLong, std::byte{0x11});
  std::fill_n(scene.memory.region.base + kLong, kShort, std::byte{0x22});
  REQUIRE(scene.post(1, ipc::Opcode::put, {kLong}) == Status::ok);
  REQUIRE(ends.turn_until([&] { return ends.counters.value("serving.read_bytes") == kLong; }));
  REQUIRE(scene.store.stored == 0);
  ends.serving_device->hold_fences(true);
  ends.requester.reset(kRoute, 1);
  while (scene.answers.fenced.empty()) ends.requester.do_work();
  ends.dial(kRoute, 0);
  ends.turn();
  REQUIRE(scene.store.stored == 0);
  ends.steps_per_turn = 200;
  REQUIRE(scene.post(2, ipc::Opcode::put, {kShort}, kLong) == Status::ok);
  REQUIRE(ends.turn_until([&] { return !scene.answers.replied.empty(); }));
  CHECK(scene.store.objects[0] == Bytes(kShort, std::byte{0x22}));
  scene.turns(50);
  CHECK(scene.store.objects[0] == Bytes(kShort, std::byte{0x22}));
  CHECK(scene.store.stored == 1);
  CHECK(scene.store.cancels == 1);
  ends.serving_device->hold_fences(false);
  scene.turns(50);
  CHECK(scene.store.stored == 1);
  CHECK(scene.store.jobs.empty());
  CHECK(ends.lost_by_server() ==
        RdmaEnds::Losses{{1, LinkLoss::given_up}, {2, LinkLoss::given_up}});
}

// More than a server takes at a time: those are asked for again, in one part.
TEST_CASE("rdma stripes: what finds no place at the server is moved whole") {
  RdmaEndsConfig config = striped_ends();
  config.asking.credits = config.serving.credits = kStripedRequestsMax + 4;
  Scene scene(config);
  scene.store.objects[0] = bytes_of(1, 300'000);
  scene.ends.hold_to_server(1);
  for (RequestToken token = 1; token <= kStripedRequestsMax + 4; ++token) {
    REQUIRE(scene.post(token, ipc::Opcode::get, {300'000}) == Status::ok);
  }
  scene.turns(200);
  scene.ends.release_to_server(1);
  REQUIRE(scene.ends.turn_until(
      [&] { return scene.answers.replied.size() == kStripedRequestsMax + 4; }, 20'000));
  CHECK(scene.answers.fenced.empty());
  CHECK(scene.asked_again() > 0);
  CHECK(scene.holds(0, scene.store.objects[0]));
  CHECK(scene.store.jobs.empty());
}

}  // namespace rdma_stripes_test
