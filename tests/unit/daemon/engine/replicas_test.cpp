// Writes of objects that are kept twice: who gets which messages, and what the client is told.
#include <array>
#include <set>

#include "tests/unit/daemon/engine/replica_world.h"

namespace replicas_test {

using namespace replica_world;

constexpr std::uint32_t kPages = 60;
constexpr std::array kWrites{Opcode::put, Opcode::remove, Opcode::pin, Opcode::unpin};

TEST_CASE("a write goes to the owners of both copies, each page once under either name") {
  for (const Opcode opcode : kWrites) {
    CAPTURE(static_cast<int>(opcode));
    ReplicaWorld world;
    world.submit(opcode, kPages);
    world.note_posts();
    std::map<std::uint32_t, std::uint64_t> offsets;
    for (const auto& post : world.requester.posts) {
      CHECK(post.request.header.tenant == base::TenantId{1});
      CHECK(post.request.header.opcode == opcode);
      for (const auto& page : post.request.pages) {
        if (opcode == Opcode::put) CHECK(page.slice.offset == page.index * 4096u);
      }
    }
    for (const bool of_replicas : {false, true}) {
      const auto times = world.asked(of_replicas);
      CHECK(times.size() == kPages);
      for (const auto& [index, count] : times) CHECK(count == 1);
    }
    CHECK(world.answer_open(false, Status::ok) == 3);
    CHECK(world.answer_open(true, Status::ok) == 3);
    CHECK(world.all_are(Status::ok));
  }
}

TEST_CASE("a write is complete when both copies are over, whichever is the last") {
  for (const bool first : {false, true}) {
    CAPTURE(first);
    ReplicaWorld world;
    world.submit(Opcode::put, kPages);
    CHECK(world.engine->in_flight() == 2);
    world.answer_open(first, Status::ok);
    for (int turns = 0; turns < 5; ++turns) world.engine->do_work();
    CHECK(world.outcomes.empty());
    world.answer_open(!first, Status::ok);
    CHECK(world.all_are(Status::ok));
    CHECK(world.only_outcome().client_token == 1);
    CHECK(world.count("op.put.batches") == 1);
    CHECK(world.count("op.put.pages.ok") == kPages);
    CHECK(world.engine->in_flight() == 0);
    CHECK(world.engine->next_deadline_ns() == base::kNoDeadline);
  }
}

TEST_CASE("moved bytes of a put are those of its pages once") {
  ReplicaWorld world;
  world.submit(Opcode::put, 4);
  const auto thousand = [](const auto&) { return PageReply{Status::ok, 1000}; };
  world.answer_open(false, thousand);
  world.answer_open(true, thousand);
  CHECK(world.only_outcome().bytes_moved == 4000);
}

TEST_CASE("nobody can be reached for the one, the other or both copies: over at once") {
  ReplicaWorld world;
  world.mirrors.peers = 2;
  const Opcode opcode = Opcode::put;
  Status expected = Status::ok;
  SUBCASE("one of the two") {
    world.cut(1);
  }
  SUBCASE("both") {
    world.cut(0);
    world.cut(1);
    expected = Status::unreachable;
  }
  world.submit(opcode, kPages);
  world.note_posts();
  for (const bool of_replicas : {false, true}) world.answer_open(of_replicas, Status::ok);
  world.engine->do_work();
  CHECK(world.all_are(expected));
  CHECK(world.count("single_writes") == (expected == Status::ok ? kPages : 0));
  // Each page has met the peer that is there, under one of its names.
  CHECK(world.seen.size() == (expected == Status::ok ? kPages : 0));
  CHECK(world.engine->in_flight() == 0);
}

TEST_CASE("the replica's owner is away before the client's own pages are posted: not complete") {
  ReplicaWorld world;
  world.mirrors.peers = 2;
  world.cut(1);
  // All its pages are at peer 0, their replicas at peer 1, so the engine's own write ends first.
  Operation& put = world.make(Opcode::put, 200, kNsPerSecond);
  const auto scope = engine::PageHasher(42).scope({1}, kTwice);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const std::string_view key(put.pages[i].key, put.pages[i].key_bytes);
    const std::uint64_t group = engine::PageHasher::group_hash(scope, key);
    if (world.mirrors.route(base::slot_of(group)).peer != base::PeerId{0}) continue;
    put.pages[kept] = put.pages[i];
    put.pages[kept].index = static_cast<std::uint16_t>(kept);
    ++kept;
  }
  REQUIRE(kept > 20);
  put.page_count = kept;
  world.engine->submit(put);
  world.engine->do_work();
  CHECK(world.outcomes.empty());
  CHECK(world.requester.open_posts() == 1);
  world.answer_open(false, Status::ok);
  CHECK(world.all_are(Status::ok));
  CHECK(world.count("single_writes") == kept);
}

TEST_CASE("a write that is fenced on one side is what the other side says") {
  for (const FenceCause cause : {FenceCause::reset, FenceCause::collateral}) {
    for (const bool fenced : {false, true}) {
      CAPTURE(fenced);
      ReplicaWorld world;
      world.submit(Opcode::put, kPages);
      world.fence_open(fenced, cause);
      CHECK(world.outcomes.empty());
      CHECK(world.requester.posts.size() == 6);  // nothing is written twice
      world.answer_open(!fenced, Status::ok);
      CHECK(world.all_are(Status::ok));
      CHECK(world.count("single_writes") == kPages);
    }
  }
}

TEST_CASE("one side says nothing until the deadline: timeout, and not before its fence") {
  for (const bool silent : {false, true}) {
    CAPTURE(silent);
    ReplicaWorld world;
    world.submit(Opcode::put, kPages);
    world.answer_open(!silent, Status::ok);
    world.pass(kNsPerSecond + 60 * kNsPerMs);
    CHECK(world.outcomes.empty());
    for (const auto& post : world.requester.posts) {
      const bool is_silent = ReplicaWorld::is_of_replicas(post) == silent;
      CHECK(post.open == is_silent);
      CHECK(post.cancels == (is_silent ? 1 : 0));
      CHECK(post.abandons == (is_silent ? 1 : 0));
      CHECK(post.resets == (is_silent ? 1 : 0));
    }
    world.fence_open(silent, FenceCause::reset);
    CHECK(world.all_are(Status::timeout));
    CHECK(world.only_outcome().status == Status::timeout);
    CHECK(world.count("timeouts") == 1);
  }
}

TEST_CASE("a cancelled batch of the most pages there may be touches none behind its last one") {
  ReplicaWorld world(config_of_twice(4));
  world.submit(Opcode::get, ipc::kPagesPerSubmissionMax);
  world.pass(kNsPerSecond + 60 * kNsPerMs);
  world.fence_open(false, FenceCause::reset);
  CHECK(world.all_are(Status::timeout));
}

TEST_CASE("what a client is told, by what became of both copies") {
  struct Case {
    Opcode opcode;
    Status object;
    Status replica;
    Status told;
  };
  constexpr auto ok = Status::ok;
  constexpr auto gone = Status::not_found;
  constexpr auto away = Status::unreachable;
  constexpr auto full = Status::no_space;
  constexpr auto late = Status::timeout;
  constexpr auto torn = Status::transfer_failed;
  const std::vector<Case> cases = {
      // A put is done when one copy is there and the other one is only missing.
      {Opcode::put, ok, ok, ok},
      {Opcode::put, ok, away, ok},
      {Opcode::put, ok, full, ok},
      {Opcode::put, ok, gone, ok},
      {Opcode::put, ok, Status::out_of_memory, ok},
      {Opcode::put, ok, late, late},
      {Opcode::put, ok, torn, torn},
      {Opcode::put, away, ok, ok},
      {Opcode::put, away, away, away},
      {Opcode::put, away, full, away},
      {Opcode::put, full, ok, full},
      {Opcode::put, late, ok, late},
      {Opcode::put, torn, ok, torn},
      // A remove is done when neither copy can be left.
      {Opcode::remove, ok, ok, ok},
      {Opcode::remove, ok, gone, ok},
      {Opcode::remove, gone, ok, ok},
      {Opcode::remove, gone, gone, gone},
      {Opcode::remove, ok, away, away},
      {Opcode::remove, away, ok, away},
      {Opcode::remove, gone, away, away},
      {Opcode::remove, ok, late, late},
      {Opcode::remove, late, gone, late},
      // A pin keeps what is there, and is taken back as long as one copy may have it.
      {Opcode::pin, ok, ok, ok},
      {Opcode::pin, ok, gone, ok},
      {Opcode::pin, ok, away, ok},
      {Opcode::pin, ok, full, ok},
      {Opcode::pin, gone, ok, ok},
      {Opcode::pin, full, ok, ok},
      {Opcode::pin, away, ok, ok},
      {Opcode::pin, gone, gone, gone},
      {Opcode::pin, away, gone, away},
      {Opcode::pin, full, gone, full},
      {Opcode::pin, ok, late, late},
      {Opcode::pin, late, ok, late},
      {Opcode::unpin, ok, ok, ok},
      {Opcode::unpin, ok, gone, ok},
      {Opcode::unpin, gone, ok, ok},
      {Opcode::unpin, gone, gone, gone},
      {Opcode::unpin, ok, away, away},
      {Opcode::unpin, away, ok, away},
      {Opcode::unpin, ok, late, late},
  };
  for (const Case& each : cases) {
    CAPTURE(static_cast<int>(each.opcode));
    CAPTURE(static_cast<int>(each.object));
    CAPTURE(static_cast<int>(each.replica));
    const PageReply reply =
        engine::ReplicaRules::join(each.opcode, {each.object, 1}, {each.replica, 2}, true);
    CHECK(reply.status == each.told);
    // The bytes are of the copy that has the status.
    if (each.object != each.replica) {
      CHECK(reply.bytes == (each.told == each.object ? 1 : 2));
    }
  }
}

TEST_CASE("a pair of slots at one peer: one copy is put, and all else is for both") {
  for (const Opcode opcode : kWrites) {
    CAPTURE(static_cast<int>(opcode));
    ReplicaWorld world;
    world.mirrors.lone_one_in = 2;
    world.submit(opcode, kPages);
    world.note_posts();
    CHECK(world.asked(false).size() == kPages);
    std::set<std::uint32_t> lone;
    for (const auto& post : world.requester.posts) {
      for (const auto& page : post.request.pages) {
        if (world.mirrors.is_lone(base::slot_of(page.group))) lone.insert(page.index);
      }
    }
    REQUIRE(lone.size() > 10);
    REQUIRE(lone.size() < kPages - 10);
    // A map may have brought an older replica there: a removed object must not come back with it.
    const bool both = opcode != Opcode::put;
    CHECK(world.asked(true).size() == (both ? kPages : kPages - lone.size()));
    for (const auto& [index, times] : world.asked(true)) {
      CHECK((both || lone.count(index) == 0));
      CHECK(times == 1);
    }
    world.answer_open(true, Status::ok);
    world.answer_open(false, Status::ok);
    CHECK(world.all_are(Status::ok));
  }
}

TEST_CASE("all pairs at one peer: a put is over with the objects, and has one copy") {
  ReplicaWorld world;
  world.mirrors.lone_one_in = 1;
  world.submit(Opcode::put, kPages);
  world.note_posts();
  CHECK(world.asked(true).empty());
  CHECK(world.outcomes.empty());
  world.answer_open(false, Status::ok);
  CHECK(world.all_are(Status::ok));
  CHECK(world.count("single_writes") == kPages);
}

TEST_CASE("the most pages with long keys, hashed piece by piece: every page once of each copy") {
  const std::string name(240, 'n');
  for (const std::uint32_t requests : {4u, 8u, 64u, 512u}) {
    for (const std::uint32_t lone : {0u, 1u, 3u}) {
      CAPTURE(requests);
      CAPTURE(lone);
      engine::EngineConfig config = config_of_twice(2);
      config.requests = requests;
      config.key_bytes_hashed_max = 4096;
      config.key_bytes_per_request_max = 16 * 1024;
      ReplicaWorld world(config);
      world.mirrors.lone_one_in = lone;
      Operation& put = world.make(Opcode::put, ipc::kPagesPerSubmissionMax, kNsPerSecond, name);
      world.engine->submit(put);
      for (int turns = 0; turns < 10'000 && world.outcomes.empty(); ++turns) {
        world.note_posts();
        world.answer_open(turns % 2 == 0, Status::ok);
        world.engine->do_work();
      }
      CHECK(world.all_are(Status::ok));
      CHECK(world.asked(false).size() == ipc::kPagesPerSubmissionMax);
      if (lone == 0) CHECK(world.asked(true).size() == ipc::kPagesPerSubmissionMax);
      if (lone == 1) CHECK(world.asked(true).empty());
      for (const bool of_replicas : {false, true}) {
        for (const auto& [index, times] : world.asked(of_replicas)) REQUIRE(times == 1);
      }
      for (std::uint32_t i = 0; i < ipc::kPagesPerSubmissionMax; ++i) {
        REQUIRE(world.only_outcome().pages[i].bytes == i);
      }
    }
  }
}

TEST_CASE("as many writers as there may be each have their replicas; then no operation is free") {
  constexpr std::uint32_t kWriters = 4;
  for (const std::uint32_t requests : {1u, 2u, 5u, 64u}) {
    CAPTURE(requests);
    engine::EngineConfig config = config_of_twice(kWriters);
    config.requests = requests;
    ReplicaWorld world(config);
    for (int round = 0; round < 3; ++round) {
      for (std::uint32_t i = 0; i < kWriters; ++i) world.submit(Opcode::put, 20);
      CHECK(world.engine->allocate() == nullptr);
      CHECK(world.engine->in_flight() == 2 * kWriters);
      world.answer_all([](bool, const auto& page) { return PageReply{Status::ok, page.index}; });
      CHECK(world.outcomes.size() == kWriters);
      for (const Completed& outcome : world.outcomes) {
        for (std::uint32_t i = 0; i < 20; ++i) CHECK(outcome.pages[i].bytes == i);
      }
      world.outcomes.clear();
    }
    CHECK(world.count("pool_exhausted") == 3);
  }
}

TEST_CASE("a write that waits for an entry until its deadline is timed out, with its replicas") {
  engine::EngineConfig config = config_of_twice(2);
  config.requests = 1;
  ReplicaWorld world(config);
  world.submit(Opcode::put, 1);  // its replica has the only entry, and nobody answers
  world.pass(kNsPerSecond);
  world.fence_open(true, FenceCause::reset);
  world.engine->do_work();
  CHECK(world.all_are(Status::timeout));
  CHECK(world.only_outcome().status == Status::timeout);
  CHECK(world.engine->in_flight() == 0);
}

TEST_CASE("what moves with its slot, and other namespaces, are written once") {
  ReplicaWorld world;
  Operation& put = world.make(Opcode::put, kPages, kNsPerSecond);
  SUBCASE("another namespace") {
    put.header.name_space = {3};
  }
  SUBCASE("another tenant") {
    put.header.tenant = {4};
  }
  SUBCASE("moved") {
    put.header.is_moved = true;
  }
  world.engine->submit(put);
  CHECK(world.engine->in_flight() == 1);
  for (std::size_t i = 0; i < world.requester.posts.size(); ++i) {
    CHECK_FALSE(ReplicaWorld::is_of_replicas(world.requester.posts[i]));
    world.requester.reply_all_pages(i, Status::ok);
  }
  world.engine->do_work();
  CHECK(world.all_are(Status::ok));
}

// ---- who hears of a write under way ----

struct ListeningWorld : ReplicaWorld {
  void on_progress(Operation& operation) noexcept override {
    CHECK_FALSE(operation.is_replica);
    ReplicaWorld::on_progress(operation);
  }
  void on_overdue(Operation& operation) noexcept override {
    CHECK_FALSE(operation.is_replica);
    overdue.push_back(operation.client_token);
  }
  std::vector<std::uint64_t> overdue;
};

TEST_CASE("progress of either copy is told of the client's own operation") {
  for (const bool moving : {false, true}) {
    CAPTURE(moving);
    ListeningWorld world;
    Operation& put = world.make(Opcode::put, kPages, 20 * kNsPerSecond);
    put.header.patience_ns = kNsPerSecond;
    world.engine->submit(put);
    world.answer_open(!moving, Status::ok);
    for (int i = 0; i < 3'000; ++i) {
      ++world.requester.moved_count;
      world.pass(kNsPerMs);
    }
    CHECK(world.outcomes.empty());
    CHECK(world.told.size() >= 3);
    for (const auto& [token, at_ns] : world.told) CHECK(token == 1);
    world.answer_open(moving, Status::ok);
    CHECK(world.all_are(Status::ok));
  }
}

TEST_CASE("a copy that is not fenced in time is overdue: the client's own operation is named") {
  for (const bool stuck : {false, true}) {
    CAPTURE(stuck);
    ListeningWorld world;
    world.submit(Opcode::put, kPages);
    world.answer_open(!stuck, Status::ok);
    world.pass(2 * kNsPerSecond);
    CHECK(world.outcomes.empty());
    CHECK(world.overdue.size() >= 3);
    for (const std::uint64_t token : world.overdue) CHECK(token == 1);
    world.fence_open(stuck, FenceCause::reset);
    CHECK(world.all_are(Status::timeout));
  }
}

TEST_CASE("a session that ends cuts both copies short") {
  ReplicaWorld world;
  Operation& put = world.make(Opcode::put, kPages, 20 * kNsPerSecond);
  world.engine->submit(put);
  world.answer_open(false, Status::ok);
  world.engine->end_soon(world, world.clock.now_ns() + 100 * kNsPerMs);
  world.pass(200 * kNsPerMs);
  for (const auto& post : world.requester.posts) CHECK(post.cancels == (post.open ? 1 : 0));
  world.fence_open(true, FenceCause::reset);
  CHECK(world.all_are(Status::timeout));
}

TEST_CASE("a write that meets another map is routed again, each copy for itself") {
  ReplicaWorld world;
  world.submit(Opcode::put, kPages);
  world.answer_open(false, Status::ok);
  world.answer_open(true, Status::wrong_epoch);
  CHECK(world.outcomes.empty());
  world.use_next_map();
  world.engine->do_work();
  CHECK(world.requester.open_posts() == 3);
  for (const auto& post : world.requester.posts) {
    if (post.open) CHECK(post.request.header.epoch == 9);
  }
  world.note_posts();
  world.answer_open(true, Status::ok);
  CHECK(world.all_are(Status::ok));
  CHECK(world.asked(false).size() == kPages);
  for (const auto& [index, times] : world.asked(true)) CHECK(times == 1 + 1);
}

TEST_CASE("a remove that is answered under two maps is not known: one copy may have been copied") {
  ReplicaWorld world;
  bool object_first = true;
  SUBCASE("the object first") {}
  SUBCASE("the replica first") {
    object_first = false;
  }
  world.submit(Opcode::remove, kPages);
  world.answer_open(!object_first, Status::ok);
  world.answer_open(object_first, Status::wrong_epoch);
  CHECK(world.outcomes.empty());
  world.use_next_map();
  world.engine->do_work();
  world.answer_open(object_first, Status::ok);
  CHECK(world.all_are(Status::unreachable));
}

}  // namespace replicas_test
