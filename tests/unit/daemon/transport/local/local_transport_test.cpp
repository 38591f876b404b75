// What is particular to the local transport; what every transport does is in tests/conformance.
#include "daemon/base/manual_clock.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/transport/region_faults.h"
#include "ipc/layout.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace local_transport_test {

using namespace local_world;
using ipc::Opcode;

// Counts the bytes of each step; may fail, or wait as if another process made the copy.
struct CountingMover final : Mover {
  std::vector<std::uint64_t> steps;
  std::vector<const std::byte*> order;
  std::vector<const std::byte*> begun;  // before their turn
  bool waits = false;
  bool lets_go = true;
  int stops = 0;
  Status failure = Status::ok;
  MoveProgress step(Move& move, std::uint64_t bytes_max) noexcept override {
    if (waits) {
      move.ticket = 1;
      return MoveProgress::waiting;
    }
    move.status = failure;
    if (failure != Status::ok) return MoveProgress::done;
    const std::uint64_t bytes = std::min(bytes_max, move.length - move.moved);
    steps.push_back(bytes);
    order.push_back(move.slice.region->base + move.slice.offset);
    move.moved += bytes;
    return move.moved == move.length ? MoveProgress::done : MoveProgress::running;
  }
  void begin(Move& move) noexcept override {
    if (move.ticket == 0) begun.push_back(move.slice.region->base + move.slice.offset);
    move.ticket = 1;
  }
  bool stop(Move&) noexcept override {
    ++stops;
    return lets_go;
  }
  int do_work() noexcept override { return 0; }
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t bytes : steps) sum += bytes;
    return sum;
  }
};

struct Faults final : RegionFaults {
  std::vector<const memory::Region*> seen;
  std::size_t replies_before = 0;
  Answers* answers = nullptr;
  void on_region_fault(const memory::Region& region) noexcept override {
    seen.push_back(&region);
    replies_before = answers->replied.size();
  }
};

struct World {
  World()
      : mesh(LocalMeshConfig{}, clock, {{nullptr, &mover}}),
        memory(64ull << 20),
        server(32ull << 20) {
    faults.answers = &answers;
    mesh.requester(0).connect(answers, &faults);
    mesh.responder(0).connect(server);
  }
  void post(RequestToken token, const Ask& ask) {
    const Status status = mesh.requester(0).post({base::kSelf, 0}, token, ask.request);
    REQUIRE(status == Status::ok);
  }
  base::ManualClock clock;
  CountingMover mover;
  LocalMesh mesh;
  TestRegion memory;
  MovingServer server;
  Answers answers;
  Faults faults;
};

TEST_CASE("a small get is served and answered in one turn of each end") {
  World world;
  const Ask ask(world.memory.region, Opcode::get, 1, 4096);
  world.post(1, ask);
  world.mesh.responder(0).do_work();
  world.mesh.requester(0).do_work();
  CHECK(world.answers.replied == std::vector<RequestToken>{1});
}

TEST_CASE("a turn copies a bounded number of bytes, and requests take turns") {
  World world;
  const LocalResponderConfig config;
  const Ask large(world.memory.region, Opcode::get, 2, 16ull << 20);
  const Ask small(world.memory.region, Opcode::get, 1, 4096, 40ull << 20);
  world.post(1, large);
  world.mesh.responder(0).do_work();
  CHECK(world.mover.total() >= config.bytes_per_turn);
  CHECK(world.mover.total() <= config.bytes_per_turn + config.bytes_per_request);
  world.post(2, small);
  world.mesh.responder(0).do_work();
  world.mesh.requester(0).do_work();
  CHECK(world.answers.replied == std::vector<RequestToken>{2});  // before the large one
  for (const std::uint64_t step : world.mover.steps) CHECK(step <= config.bytes_per_request);
  for (int i = 0; i < 100; ++i) world.mesh.responder(0).do_work();
  world.mesh.requester(0).do_work();
  CHECK(world.answers.replied == std::vector<RequestToken>{2, 1});
  CHECK(world.mover.total() == (32ull << 20) + 4096);
}

TEST_CASE("a region fault is reported before the reply that carries it") {
  World world;
  world.mover.failure = Status::transfer_failed;
  const Ask ask(world.memory.region, Opcode::put, 3, 4096);
  world.post(1, ask);
  world.mesh.responder(0).do_work();
  world.mesh.requester(0).do_work();
  REQUIRE(world.faults.seen.size() == 1);  // once for a request
  CHECK(world.faults.seen[0] == &world.memory.region);
  CHECK(world.faults.replies_before == 0);
  CHECK(world.answers.last[2].status == Status::transfer_failed);
}

TEST_CASE("a budget that is used up is no fault of the region") {
  World world;
  world.mover.failure = Status::out_of_memory;
  const Ask ask(world.memory.region, Opcode::put, 1, 4096);
  world.post(1, ask);
  world.mesh.responder(0).do_work();
  world.mesh.requester(0).do_work();
  CHECK(world.faults.seen.empty());
  CHECK(world.answers.last[0].status == Status::out_of_memory);
}

TEST_CASE("a copy that is made elsewhere holds up nobody, and is fenced only when it has stopped") {
  World world;
  world.mover.waits = true;
  world.mover.lets_go = false;
  const Ask ask(world.memory.region, Opcode::get, 2, 4096);
  world.post(1, ask);
  CHECK(world.mesh.responder(0).do_work() > 0);
  CHECK(world.mesh.responder(0).do_work() == 0);                          // nothing to do but wait
  CHECK(world.mesh.responder(0).next_deadline_ns() < base::kNoDeadline);  // nobody wakes it
  bool reset = false;
  SUBCASE("by a reset") {
    reset = true;
  }
  SUBCASE("by a cancel") {
    reset = false;
  }
  if (reset) {
    world.mesh.requester(0).reset({base::kSelf, 0}, 1);
  } else {
    world.mesh.requester(0).cancel({base::kSelf, 0}, 1);
  }
  for (int i = 0; i < 10; ++i) {
    world.mesh.responder(0).do_work();
    world.mesh.requester(0).do_work();
  }
  CHECK(world.mover.stops >= 10);
  CHECK(world.answers.replied.empty());
  CHECK(world.answers.fenced.empty());
  CHECK(world.server.aborted == 0);
  world.mover.lets_go = true;
  world.mesh.responder(0).do_work();
  world.mesh.requester(0).do_work();
  CHECK(world.answers.replied.size() == (reset ? 0 : 1));
  CHECK(world.answers.fenced.size() == (reset ? 1 : 0));
  CHECK(world.mesh.responder(0).next_deadline_ns() == base::kNoDeadline);
}

TEST_CASE("while a request's first move is made elsewhere, a few of its others are begun") {
  World world;
  const Ask ask(world.memory.region, Opcode::get, 40, 4096);
  SUBCASE("not when the copies are made here") {
    world.post(1, ask);
    world.mesh.responder(0).do_work();
    CHECK(world.mover.begun.empty());
  }
  SUBCASE("each once, the next ones first") {
    world.mover.waits = true;
    world.post(1, ask);
    for (int i = 0; i < 3; ++i) world.mesh.responder(0).do_work();
    REQUIRE(world.mover.begun.size() == LocalResponderConfig{}.moves_ahead);
    for (std::size_t i = 0; i < world.mover.begun.size(); ++i) {
      CHECK(world.mover.begun[i] == world.memory.region.base + (i + 1) * 4096);
    }
    world.mover.waits = false;
    for (int i = 0; i < 3; ++i) world.mesh.responder(0).do_work();
    world.mesh.requester(0).do_work();
    CHECK(world.answers.replied == std::vector<RequestToken>{1});
  }
  SUBCASE("none of a request that is cancelled, and those that are begun are stopped") {
    world.mover.waits = true;
    world.post(1, ask);
    world.mesh.responder(0).do_work();
    const std::size_t begun = world.mover.begun.size();
    world.mover.lets_go = false;
    world.mesh.requester(0).cancel({base::kSelf, 0}, 1);
    for (int i = 0; i < 3; ++i) world.mesh.responder(0).do_work();
    CHECK(world.mover.begun.size() == begun);
    world.mesh.requester(0).do_work();
    CHECK(world.answers.replied.empty());
    world.mover.lets_go = true;
    world.mover.stops = 0;
    world.mesh.responder(0).do_work();
    CHECK(world.mover.stops == 40);
    world.mesh.requester(0).do_work();
    CHECK(world.answers.replied == std::vector<RequestToken>{1});
  }
}

TEST_CASE("an engine's request goes to the shard it names") {
  CountingMover movers[3];
  const base::ManualClock clock;
  LocalMesh mesh({}, clock, {{nullptr, &movers[0]}, {nullptr, &movers[1]}, {nullptr, &movers[2]}});
  TestRegion memory(1 << 20);
  Answers answers;
  MovingServer servers[3] = {MovingServer(4096), MovingServer(4096), MovingServer(4096)};
  for (std::uint32_t i = 0; i < 3; ++i) {
    mesh.requester(i).connect(answers, nullptr);
    mesh.responder(i).connect(servers[i]);
  }
  const Ask ask(memory.region, Opcode::get, 1, 100);
  for (std::uint32_t agent = 0; agent < 3; ++agent) {
    for (std::uint16_t shard = 0; shard < 3; ++shard) {
      const Status status = mesh.requester(agent).post({base::kSelf, shard}, 1, ask.request);
      CHECK(status == Status::ok);
      mesh.responder(shard).do_work();
      mesh.requester(agent).do_work();
      CHECK(servers[shard].order.size() == agent + 1);
    }
  }
  CHECK(answers.replied.size() == 9);
  const Status nobody = mesh.requester(0).post({base::kSelf, 3}, 1, ask.request);
  CHECK(nobody == Status::unreachable);
}

TEST_CASE("what a turn leaves in a channel is taken in the next ones, though nobody posts again") {
  constexpr std::uint32_t kAgents = 64;
  constexpr std::uint32_t kRequests = 5;
  LocalMeshConfig config;
  config.responder.commands_per_turn = 2;
  CountingMover mover;
  const base::ManualClock clock;
  LocalMesh mesh(config, clock, std::vector<LocalMember>(kAgents, {nullptr, &mover}));
  TestRegion memory(1 << 20);
  Answers answers;
  MovingServer server(4096);
  constexpr std::uint16_t kShard = kAgents - 1;
  mesh.responder(kShard).connect(server);
  // From the first agent and the last one, which is the shard's own.
  const std::uint32_t askers[] = {0, kAgents - 1};
  const Ask ask(memory.region, Opcode::get, 1, 100);
  for (const std::uint32_t agent : askers) {
    mesh.requester(agent).connect(answers, nullptr);
    for (RequestToken token = 1; token <= kRequests; ++token) {
      const Status status = mesh.requester(agent).post({base::kSelf, kShard}, token, ask.request);
      REQUIRE(status == Status::ok);
    }
  }
  for (const std::size_t arrived : {4u, 8u, 10u}) {
    mesh.responder(kShard).do_work();
    CHECK(server.order.size() == arrived);
  }
  for (const std::uint32_t agent : askers) mesh.requester(agent).do_work();
  CHECK(answers.replied.size() == 2 * kRequests);
  CHECK(mesh.responder(kShard).do_work() == 0);
}

}  // namespace local_transport_test
