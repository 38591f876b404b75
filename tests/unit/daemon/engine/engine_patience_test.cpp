// Batches with patience: a slow way is waited for until the latest deadline, one that stands is
// not.
#include "daemon/engine/engine.h"
#include "tests/unit/daemon/engine/engine_world.h"

namespace engine_patience_test {

using namespace engine_world;
using base::kNsPerMs;
using ipc::Opcode;

// Patience 1,000 ms, deadline after 10,000.
struct PatientWorld : World {
  explicit PatientWorld(std::uint16_t shards = 1, Opcode opcode = Opcode::get) : World({}, shards) {
    Operation& operation = make(opcode, 8, 10'000 * kNsPerMs);
    operation.header.patience_ns = 1000 * kNsPerMs;
    begun_ns = clock.now_ns();
    engine->submit(operation);
  }
  [[nodiscard]] base::TimeNs passed_ms() const { return (clock.now_ns() - begun_ns) / kNsPerMs; }
  [[nodiscard]] int cancels() const { return requester.posts[0].cancels; }
  void move_for(base::TimeNs by_ms) {
    for (base::TimeNs ms = 0; ms < by_ms; ms += 50) {
      ++requester.moved_count;
      pass(50 * kNsPerMs);
    }
  }
  base::TimeNs begun_ns = 0;
};

TEST_CASE("a way that stands is given up after the patience, as with a deadline") {
  PatientWorld world;
  world.pass(799 * kNsPerMs);
  CHECK(world.cancels() == 0);
  world.pass(2 * kNsPerMs);
  CHECK(world.cancels() == 1);
  CHECK(world.told.empty());
  world.pass(200 * kNsPerMs);
  CHECK(world.requester.posts[0].abandons == 1);
  world.pass(50 * kNsPerMs);
  CHECK(world.requester.posts[0].resets == 1);
  world.requester.fence(0, FenceCause::reset);
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].pages[0].status == Status::timeout);
}

TEST_CASE("a slow way that moves is waited for, and the answer counts") {
  PatientWorld world;
  world.move_for(6000);
  CHECK(world.cancels() == 0);
  CHECK(world.outcomes.empty());
  CHECK(world.count("extended") == world.told.size());
  // Whoever waits hears of it in time.
  base::TimeNs last_ns = world.begun_ns;
  for (const auto& [token, at_ns] : world.told) {
    CHECK(at_ns - last_ns < 1000 * kNsPerMs);
    last_ns = at_ns;
  }
  CHECK(world.clock.now_ns() - last_ns < 1000 * kNsPerMs);
  world.requester.reply_all_pages(0, Status::ok, 4096);
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].pages[7].status == Status::ok);
}

TEST_CASE("a way that moved and then stands is given up within its patience and one look") {
  PatientWorld world;
  world.move_for(3000);
  while (world.cancels() == 0 && world.passed_ms() < 10'000) world.pass(kNsPerMs);
  CHECK(world.passed_ms() >= 3600);
  CHECK(world.passed_ms() <= 3000 + 1000 + 250);
}

TEST_CASE("the latest deadline holds, however much moves") {
  PatientWorld world;
  world.move_for(9500);
  CHECK(world.cancels() == 0);
  world.move_for(450);
  CHECK(world.cancels() == 1);
  world.move_for(100);
  CHECK(world.requester.posts[0].abandons == 1);
  world.move_for(50);
  CHECK(world.requester.posts[0].resets == 1);
  CHECK(world.passed_ms() <= 10'150);
  world.requester.fence(0, FenceCause::reset);
  world.engine->do_work();
  CHECK(world.outcomes.size() == 1);
}

TEST_CASE("an answer of one owner is progress for the batch") {
  PatientWorld world(2);
  REQUIRE(world.requester.posts.size() == 2);
  world.pass(600 * kNsPerMs);
  world.requester.reply_all_pages(0, Status::ok, 4096);
  world.pass(600 * kNsPerMs);
  CHECK(world.requester.posts[1].cancels == 0);
  world.pass(600 * kNsPerMs);
  CHECK(world.requester.posts[1].cancels == 1);
}

TEST_CASE("an owner with another map is no progress") {
  PatientWorld world(1, Opcode::put);
  while (world.passed_ms() < 1100 && world.outcomes.empty()) {
    for (std::size_t i = 0; i < world.requester.posts.size(); ++i) {
      if (!world.requester.posts[i].open) continue;
      ++world.requester.moved_count;
      world.requester.reply_all_pages(i, Status::wrong_epoch);
    }
    world.pass(kNsPerMs);
  }
  CHECK(world.told.empty());
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].pages[0].status != Status::ok);
}

TEST_CASE("without patience the deadline alone decides") {
  World world;
  world.submit(Opcode::get, 2, 1000 * kNsPerMs);
  for (int i = 0; i < 20; ++i) {
    ++world.requester.moved_count;
    world.pass(45 * kNsPerMs);
  }
  CHECK(world.requester.posts[0].cancels == 1);
  CHECK(world.told.empty());
}

}  // namespace engine_patience_test
