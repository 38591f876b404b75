// Reads of objects that are kept twice: which copy they ask first, and when they ask the other one.
#include <array>

#include "daemon/engine/shared_read_routes.h"
#include "daemon/engine/write_marks.h"
#include "tests/unit/daemon/engine/replica_world.h"

namespace replica_reads_test {

using namespace replica_world;

constexpr std::uint32_t kPages = 60;
constexpr std::array kReads{Opcode::get, Opcode::exists};

// Every page asked its first copy once, and these its other one once.
void check_asked(const ReplicaWorld& world, bool first_copy, std::size_t others) {
  CHECK(world.asked(first_copy).size() == kPages);
  CHECK(world.asked(!first_copy).size() == others);
  for (const bool of_replicas : {false, true}) {
    for (const auto& [index, times] : world.asked(of_replicas)) REQUIRE(times == 1);
  }
  CHECK(world.count("asked_other") == others);
}

TEST_CASE("a read asks the owners of objects, and nobody else where that finds them") {
  for (const Opcode opcode : kReads) {
    ReplicaWorld world;
    world.submit(opcode, kPages);
    CHECK(world.engine->in_flight() == 1);
    world.note_posts();
    world.answer_open(false, Status::ok);
    CHECK(world.all_are(Status::ok));
    CHECK(world.count("asked_other") == 0);
  }
}

void read_without_one_owner(Opcode opcode, bool leaves_in_flight) {
  ReplicaWorld world;
  if (!leaves_in_flight) world.cut(1);
  world.submit(opcode, kPages);
  world.note_posts();
  for (std::size_t i = 0; leaves_in_flight && i < world.requester.posts.size(); ++i) {
    if (world.requester.posts[i].route.peer != base::PeerId{1}) continue;
    world.requester.fence(i, FenceCause::reset);
  }
  world.engine->do_work();
  world.note_posts();
  const std::size_t away = world.asked(true).size();
  CHECK(away > 10);
  CHECK(away < kPages);
  CHECK(world.answer_open(false, Status::ok) == 2);
  CHECK(world.outcomes.empty());
  CHECK(world.answer_open(true, Status::ok) == 2);  // one is at its right, the other at its left
  CHECK(world.all_are(Status::ok));
  for (std::uint32_t i = 0; i < kPages; ++i) CHECK(world.only_outcome().pages[i].bytes == i);
  CHECK(world.count("asked_other") == away);
  const std::string name = opcode == Opcode::get ? "get" : "exists";
  CHECK(world.count("op." + name + ".pages.ok") == kPages);
}

TEST_CASE("an owner that can not be reached, or leaves in the middle: its replicas are read") {
  for (const Opcode opcode : kReads) {
    for (const bool leaves_in_flight : {false, true}) {
      CAPTURE(static_cast<int>(opcode));
      CAPTURE(leaves_in_flight);
      read_without_one_owner(opcode, leaves_in_flight);
    }
  }
}

TEST_CASE("neither owner can be reached: a miss, and nobody is asked again") {
  ReplicaWorld world;
  for (std::uint32_t peer = 0; peer < 3; ++peer) world.cut(peer);
  world.submit(Opcode::get, kPages);
  for (int turns = 0; turns < 5; ++turns) world.engine->do_work();
  CHECK(world.all_are(Status::not_found));
  CHECK(world.count("asked_other") == kPages);
}

TEST_CASE("a fence for another one's sake is tried again at the same owner, then at the other") {
  ReplicaWorld world;
  world.submit(Opcode::get, kPages);
  world.fence_open(false, FenceCause::collateral);
  world.engine->do_work();
  CHECK(world.count("retries") == 3);
  CHECK(world.count("asked_other") == 0);
  world.fence_open(false, FenceCause::collateral);
  world.engine->do_work();
  CHECK(world.count("asked_other") == kPages);
  world.answer_open(true, Status::ok);
  CHECK(world.all_are(Status::ok));
}

TEST_CASE("which answers ask the other copy, and what is told when that has none") {
  struct Case {
    Status status;
    bool asks;
    Status told;  // when the other copy is missing too
  };
  const std::vector<Case> cases = {
      {Status::not_found, true, Status::not_found},
      {Status::corrupt, true, Status::not_found},
      {Status::unreachable, true, Status::not_found},
      {Status::size_mismatch, false, Status::not_found},
      {Status::transfer_failed, false, Status::transfer_failed},
      {Status::out_of_memory, false, Status::out_of_memory},
      {Status::timeout, false, Status::timeout},
  };
  for (const Case& each : cases) {
    for (const bool found : {false, true}) {
      CAPTURE(static_cast<int>(each.status));
      CAPTURE(found);
      ReplicaWorld world;
      world.submit(Opcode::get, kPages);
      world.note_posts();
      world.answer_open(false, each.status);
      world.engine->do_work();
      world.note_posts();
      check_asked(world, false, each.asks ? kPages : 0);
      if (each.asks) world.answer_open(true, found ? Status::ok : Status::not_found);
      CHECK(world.all_are(each.asks && found ? Status::ok : each.told));
    }
  }
}

TEST_CASE("a corrupt replica, and one that is away, are a miss: the object is not asked again") {
  for (const Status last : {Status::corrupt, Status::unreachable, Status::not_found}) {
    ReplicaWorld world;
    world.submit(Opcode::get, kPages);
    world.note_posts();
    world.answer_open(false, Status::corrupt);
    world.engine->do_work();
    world.note_posts();
    world.answer_open(true, last);
    for (int turns = 0; turns < 5; ++turns) world.engine->do_work();
    CHECK(world.all_are(Status::not_found));
    check_asked(world, false, kPages);
  }
}

TEST_CASE("one read in eight begins with the replicas, and a miss there asks the object") {
  for (const Opcode opcode : kReads) {
    for (const Status first : {Status::ok, Status::not_found, Status::corrupt}) {
      CAPTURE(static_cast<int>(first));
      ReplicaWorld world;
      world.read_until_replicas_are_next();
      world.submit(opcode, kPages);
      world.note_posts();
      CHECK(world.asked(false).empty());
      world.answer_open(true, first);
      world.engine->do_work();
      world.note_posts();
      check_asked(world, true, first == Status::ok ? 0 : kPages);
      if (first != Status::ok) {
        CHECK(world.outcomes.empty());
        world.answer_open(false, Status::ok);
      }
      CHECK(world.all_are(Status::ok));
      for (std::uint32_t i = 0; i < kPages; ++i) CHECK(world.only_outcome().pages[i].bytes == i);
      world.outcomes.clear();
      world.submit(Opcode::exists, 1);
      CHECK_FALSE(ReplicaWorld::is_of_replicas(world.requester.posts.back()));
      world.answer_open(false, Status::ok);
    }
  }
}

TEST_CASE("long keys, hashed piece by piece, in many messages: every piece names the same copy") {
  for (const std::uint32_t requests : {8u, 512u}) {
    for (const Status first : {Status::ok, Status::not_found}) {
      CAPTURE(requests);
      CAPTURE(static_cast<int>(first));
      engine::EngineConfig config = config_of_twice(2);
      config.requests = requests;
      config.key_bytes_hashed_max = 4096;
      config.key_bytes_per_request_max = 16 * 1024;
      ReplicaWorld world(config);
      world.read_until_replicas_are_next();
      constexpr std::uint32_t kMost = ipc::kPagesPerSubmissionMax;
      world.engine->submit(world.make(Opcode::get, kMost, kNsPerSecond, std::string(240, 'n')));
      const auto index_of = [](const auto& page) { return PageReply{Status::ok, page.index}; };
      for (int turns = 0; turns < 10'000 && world.outcomes.empty(); ++turns) {
        world.note_posts();
        if (first == Status::ok) world.answer_open(true, index_of);
        if (first != Status::ok) world.answer_open(true, first);
        world.note_posts();
        world.answer_open(false, index_of);
      }
      for (const bool of_replicas : {false, true}) {
        for (const auto& [index, times] : world.asked(of_replicas)) REQUIRE(times == 1);
      }
      CHECK(world.asked(true).size() == kMost);
      const std::size_t others = world.asked(false).size();
      CHECK(others == (first == Status::ok ? 0 : kMost));
      std::size_t found = 0;
      for (std::uint32_t i = 0; i < kMost; ++i) {
        const PageReply& reply = world.only_outcome().pages[i];
        found += reply.status == Status::ok ? 1u : 0u;
        if (reply.status == Status::ok) REQUIRE(reply.bytes == i);
      }
      CHECK(found == (first == Status::ok ? kMost : others));
    }
  }
}

TEST_CASE("a read that begins with replicas which are away goes to the objects") {
  ReplicaWorld world;
  world.read_until_replicas_are_next();
  world.cut(0);
  world.cut(1);
  world.submit(Opcode::get, kPages);
  world.engine->do_work();
  world.engine->do_work();
  world.note_posts();
  std::size_t there = 0;
  for (const bool of_replicas : {false, true}) {
    there += world.asked(of_replicas).size();
    world.answer_open(of_replicas, Status::ok);
  }
  CHECK(there > kPages / 3);  // of three peers one is there: with two of the six parts of the pages
  std::size_t found = 0;
  for (const PageReply& reply : world.only_outcome().pages) {
    found += reply.status == Status::ok ? 1u : 0u;
  }
  CHECK(found == there);
}

TEST_CASE(
    "the pages of one message go three ways: found, asked again elsewhere, asked again here") {
  ReplicaWorld world;
  world.mirrors.peers = 2;
  world.submit(Opcode::get, 300);
  world.note_posts();
  // By the page's index: found, missing, corrupt, of another map.
  const auto what = [](const transport::PageRequest& page) {
    constexpr std::array kStatuses{Status::ok, Status::not_found, Status::corrupt,
                                   Status::wrong_epoch};
    const Status status = kStatuses[page.index % 4];
    return PageReply{status, status == Status::ok ? page.index : 0u};
  };
  world.answer_open(false, what);
  world.engine->do_work();
  world.note_posts();
  const auto replicas = world.asked(true);
  CHECK(replicas.size() == 150);
  for (const auto& [index, times] : replicas) {
    CHECK((index % 4 == 1 || index % 4 == 2));
    CHECK(times == 1);
  }
  world.answer_open(true, [](const auto& page) {
    const bool is_there = page.index % 4 == 2;
    return PageReply{is_there ? Status::ok : Status::not_found, is_there ? page.index : 0u};
  });
  CHECK(world.outcomes.empty());
  world.pass(5 * kNsPerMs);  // the pause of those of another map
  world.note_posts();
  for (const auto& [index, times] : world.asked(false)) CHECK(times == (index % 4 == 3 ? 2 : 1));
  world.answer_open(false, [](const auto& page) { return PageReply{Status::ok, page.index}; });
  const auto& pages = world.only_outcome().pages;
  for (std::uint32_t i = 0; i < 300; ++i) {
    CHECK(pages[i].status == (i % 4 == 1 ? Status::not_found : Status::ok));
    CHECK(pages[i].bytes == (i % 4 == 1 ? 0 : i));
  }
}

TEST_CASE("an owner that has waited for a map too long is passed over: the replica is read") {
  ReplicaWorld world;
  world.submit(Opcode::get, kPages);
  for (int i = 0; i < 200 && world.count("asked_other") == 0; ++i) {
    world.answer_open(false, Status::wrong_epoch);
    world.pass(kNsPerMs);
  }
  CHECK(world.count("asked_other") == kPages);
  world.engine->do_work();
  world.answer_open(true, Status::ok);
  CHECK(world.all_are(Status::ok));
}

TEST_CASE("without an entry for a second message, a read with an absent owner is a miss") {
  engine::EngineConfig config = config_of_twice(1);
  config.requests = 1;
  ReplicaWorld world(config);
  world.mirrors.peers = 1;
  world.cut(0);
  world.submit(Opcode::get, kPages);
  world.engine->do_work();
  CHECK(world.all_are(Status::not_found));
  CHECK(world.engine->in_flight() == 0);
}

TEST_CASE("a read that is given up asks nobody else") {
  ReplicaWorld world;
  world.submit(Opcode::get, kPages);
  world.pass(850 * kNsPerMs);
  for (const auto& post : world.requester.posts) CHECK(post.cancels == 1);
  world.answer_open(false, Status::corrupt);
  CHECK(world.all_are(Status::not_found));
  CHECK(world.count("asked_other") == 0);
}

TEST_CASE("reads of other namespaces ask one copy, whatever it says") {
  ReplicaWorld world;
  world.use_next_map();
  for (int i = 0; i < 12; ++i) {
    Operation& get = world.make(Opcode::get, kPages, kNsPerSecond);
    get.header.name_space = {3};
    world.engine->submit(get);
  }
  for (std::size_t i = 0; i < world.requester.posts.size(); ++i) {
    CHECK(world.requester.posts[i].request.header.name_space == base::NamespaceId{3});
    world.requester.reply_all_pages(i, i % 2 == 0 ? Status::not_found : Status::corrupt);
  }
  world.engine->do_work();
  CHECK(world.outcomes.size() == 12);
  CHECK(world.count("asked_other") == 0);
}

// ---- shared reads ----

struct SharedWorld : ReplicaWorld {
  SharedWorld() { engine->use_shared_reads(3, marks); }
  std::uint64_t get_shared() {
    Operation& get = make(Opcode::get, kPages, kNsPerSecond);
    get.header.shared_read = true;
    engine->submit(get);
    return get.client_token;
  }
  void answer_peer(base::PeerId peer, Status status) {
    for (std::size_t i = 0; i < requester.posts.size(); ++i) {
      if (requester.posts[i].open && requester.posts[i].route.peer == peer) {
        requester.reply_all_pages(i, status);
      }
    }
    engine->do_work();
    engine->do_work();
  }
  engine::WriteMarks marks;
};

TEST_CASE("a shared read never begins with replicas, and its shard's miss is the answer") {
  SharedWorld world;
  world.use_next_map();
  for (int i = 0; i < 10; ++i) {
    world.get_shared();
    for (const auto& post : world.requester.posts) {
      CHECK_FALSE(ReplicaWorld::is_of_replicas(post));
    }
    world.answer_peer(engine::kSharedReads, Status::not_found);
    world.answer_peer(base::kSelf, Status::ok);
    world.requester.posts.clear();
  }
  CHECK(world.outcomes.size() == 10);
  CHECK(world.count("asked_other") == 0);
}

TEST_CASE("of a shared read, what this daemon has damaged itself is read from the replica") {
  SharedWorld world;
  world.get_shared();
  std::size_t own = 0;
  for (const auto& post : world.requester.posts) {
    if (post.route.peer == base::kSelf) own += post.request.pages.size();
  }
  REQUIRE(own > 5);
  world.answer_peer(engine::kSharedReads, Status::ok);
  world.answer_peer(base::kSelf, Status::corrupt);
  CHECK(world.count("asked_other") == own);
  CHECK(world.answer_open(true, Status::ok) > 0);
  CHECK(world.all_are(Status::ok));
}

TEST_CASE("what shared reads decline is read from its owner, and from the replica's then") {
  SharedWorld world;
  world.get_shared();
  world.answer_peer(engine::kSharedReads, Status::no_space);
  world.answer_peer(base::kSelf, Status::ok);
  const std::uint64_t own = world.count("declined");
  CHECK(own > 5);
  world.fence_open(false, FenceCause::reset);
  world.engine->do_work();
  CHECK(world.count("asked_other") == own);
  world.answer_open(true, Status::ok);
  CHECK(world.all_are(Status::ok));
}

TEST_CASE("a remove of both copies leaves its mark on the name that shared reads know") {
  SharedWorld world;
  Operation& remove = world.make(Opcode::remove, 1, kNsPerSecond);
  world.engine->submit(remove);
  base::KeyHash name;
  for (const auto& post : world.requester.posts) {
    if (!ReplicaWorld::is_of_replicas(post)) name = post.request.pages[0].hash;
  }
  const std::uint64_t before = world.marks.of(name);
  world.answer_open(false, Status::ok);
  CHECK(world.marks.of(name) == before);
  world.answer_open(true, Status::ok);
  CHECK(world.marks.of(name) != before);
}

}  // namespace replica_reads_test
