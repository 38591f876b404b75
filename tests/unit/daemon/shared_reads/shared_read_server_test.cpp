// What requesters of one node get from shared reads, and what it costs the network.
#include <string>
#include <vector>

#include "tests/unit/daemon/shared_reads/shared_read_world.h"

namespace shared_read_server_test {

using namespace shared_read_world;
using base::kNsPerMs;
using base::kNsPerSecond;
using ipc::Opcode;

std::vector<std::string> mla_keys(std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) {
    std::string digest = std::to_string(i);
    keys.push_back(std::string(64 - digest.size(), 'a') + digest + "__k");
  }
  return keys;
}

TEST_CASE("eight processes that read the same pages cost the network what one costs") {
  WorldConfig config;
  config.agents = 2;
  config.memory_bytes = 1 << 20;
  World world(config);
  const std::vector<std::string> keys = mla_keys(128);
  std::uint64_t once_bytes = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    world.store(keys[i], World::pattern(i, 5000));
    once_bytes += 5000;
  }
  std::vector<Ask*> ranks;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    World::Options options;
    options.agent = rank % 2;
    options.shared = false;  // the shape of the keys says it
    ranks.push_back(&world.get(keys, 5000, options));
    for (std::uint32_t i = 0; i < rank; ++i) world.turn(i % 2);  // they do not come all at once
  }
  world.settle();
  for (Ask* rank : ranks) {
    REQUIRE(rank->done);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      REQUIRE(rank->replies[i].status == Status::ok);
      CHECK(rank->got(i) == World::pattern(i, 5000));
    }
  }
  CHECK(world.remote.sent_bytes <= once_bytes * 105 / 100);
  CHECK(world.remote.sent_bytes >= once_bytes);
  CHECK(world.count("copied_bytes") == 8 * once_bytes);
}

TEST_CASE("what nobody shares goes to its owner") {
  World world;
  world.store("key", World::pattern(1, 100));
  World::Options options;
  options.shared = false;
  Ask& ask = world.get({"key"}, 100, options);
  world.settle();
  CHECK(ask.replies[0].status == Status::ok);
  CHECK(world.count("pages") == 0);
  CHECK(world.remote.sent_bytes == 100);
}

TEST_CASE("a requester that writes into its buffer all the time harms only itself") {
  for (const std::uint32_t hostile : {0u, 1u, 2u}) {  // the leader, and others
    World world;
    const std::vector<std::string> keys = mla_keys(4);
    for (std::size_t i = 0; i < keys.size(); ++i) world.store(keys[i], World::pattern(i, 70'000));
    world.remote.holds_answers = true;
    std::vector<Ask*> ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.push_back(&world.get(keys, 70'000));
    for (int turns = 0; turns < 100'000; ++turns) {
      std::fill(ranks[hostile]->memory.begin(), ranks[hostile]->memory.end(), std::byte{0x66});
      if (turns == 5) world.remote.holds_answers = false;
      if (world.turn() == 0 && turns > 5) break;
    }
    Ask& late = world.get(keys, 70'000);  // from the copy that stays
    world.settle();
    ranks.push_back(&late);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      REQUIRE(ranks[rank]->done);
      for (std::size_t i = 0; i < keys.size() && rank != hostile; ++i) {
        REQUIRE(ranks[rank]->replies[i].status == Status::ok);
        CHECK(ranks[rank]->got(i) == World::pattern(i, 70'000));
      }
    }
    CHECK(world.remote.sent_bytes == 4 * 70'000);
  }
}

TEST_CASE("after a put or remove of this node nobody reads what was there before") {
  WorldConfig config;
  config.agents = 2;
  World world(config);
  world.store("key", World::pattern(1, 100));
  World::Options writer;
  writer.agent = 1;
  SUBCASE("a copy that was kept") {
    world.get({"key"}, 100);
    world.settle();
    world.ask(Opcode::put, {"key"}, 100, writer, 0x42);
    world.settle();
    Ask& ask = world.get({"key"}, 100);
    world.settle();
    CHECK(ask.got(0) == Bytes(100, std::byte{0x42}));
  }
  SUBCASE("a fetch that was under way, and that no longer serves those who ask now") {
    world.remote.holds_answers = true;
    Ask& before = world.get({"key"}, 100);
    for (int i = 0; i < 4; ++i) world.turn();
    // The write overtakes the fetch: the owner has answered it before, the answer is on its way.
    world.ask(Opcode::remove, {"key"}, 0, writer);
    world.store("key", World::pattern(2, 100));
    world.remote.holds_answers = false;
    world.turn(1);
    world.turn(1);
    world.remote.holds_answers = true;
    Ask& after = world.get({"key"}, 100);
    for (int i = 0; i < 4; ++i) world.turn();
    world.remote.holds_answers = false;
    world.settle();
    CHECK(before.done);
    CHECK(after.replies[0].status == Status::not_found);
    CHECK(world.remote.get_pages == 2);
  }
  SUBCASE("removed") {
    world.get({"key"}, 100);
    world.settle();
    world.ask(Opcode::remove, {"key"}, 0, writer);
    world.settle();
    Ask& ask = world.get({"key"}, 100);
    world.settle();
    CHECK(ask.replies[0].status == Status::not_found);
  }
}

TEST_CASE("a put of another node is seen when the copy has lingered") {
  World world;
  world.store("key", World::pattern(1, 100));
  world.get({"key"}, 100);
  world.settle();
  world.store("key", World::pattern(2, 100));
  world.pass(1990 * kNsPerMs);
  Ask& early = world.get({"key"}, 100);
  world.settle();
  CHECK(early.got(0) == World::pattern(1, 100));
  CHECK(world.remote.get_pages == 1);
  world.pass(20 * kNsPerMs);  // its use does not keep it
  Ask& late = world.get({"key"}, 100);
  world.settle();
  CHECK(late.got(0) == World::pattern(2, 100));
  CHECK(world.remote.get_pages == 2);
}

TEST_CASE("views of other lengths get what the owner would answer them") {
  World world;
  world.store("key", World::pattern(1, 100));
  world.remote.holds_answers = true;
  World::Options exact;
  exact.exact = true;
  struct Case {
    std::uint64_t view_bytes;
    bool exact;
    Status status;
  };
  const std::vector<Case> cases = {
      {120, false, Status::ok},       {100, true, Status::ok},
      {120, true, Status::not_found}, {50, false, Status::invalid_argument},
      {50, true, Status::not_found},  {100, false, Status::ok},
      {200, false, Status::ok},       {99, true, Status::not_found},
      {100, false, Status::ok},
  };
  std::size_t first = 0;
  SUBCASE("the longest view first") {}
  SUBCASE("another one first") {
    first = 3;
  }
  std::vector<Ask*> together;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[(first + i) % cases.size()];
    together.push_back(&world.get({"key"}, c.view_bytes, c.exact ? exact : World::Options{}));
    world.turn();
  }
  world.remote.holds_answers = false;
  world.settle();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[(first + i) % cases.size()];
    INFO("view " << c.view_bytes << " exact " << c.exact);
    CHECK(together[i]->replies[0].status == c.status);
    Ask& later = world.get({"key"}, c.view_bytes, c.exact ? exact : World::Options{});
    world.settle();
    CHECK(later.replies[0].status == c.status);
    for (Ask* ask : {together[i], &later}) {
      if (c.status == Status::ok) CHECK(ask->got(0) == World::pattern(1, 100));
    }
  }
}

TEST_CASE("without room for a shared read its page goes to the owner") {
  WorldConfig config;
  config.memory_bytes = 64 * 1024;
  SUBCASE("no memory") {}
  SUBCASE("no shared read") {
    config.shared_reads.shared_reads_max = 2;
  }
  SUBCASE("nobody more may wait") {
    config.shared_reads.waiters_max = 2;
  }
  World world(config);
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) {
    keys.push_back("key" + std::to_string(i));
    world.store(keys.back(), World::pattern(static_cast<std::uint64_t>(i), 10'000));
  }
  world.store("huge", World::pattern(77, 100'000));
  Ask& ask = world.get(keys, 10'000);
  Ask& huge = world.get({"huge"}, 100'000);
  world.settle();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    REQUIRE(ask.replies[i].status == Status::ok);
    CHECK(ask.got(i) == World::pattern(i, 10'000));
  }
  CHECK(huge.got(0) == World::pattern(77, 100'000));
  CHECK(world.count("declined") >= 30);
  CHECK(world.count("fetched_pages") > 0);
}

TEST_CASE("the copies that were not used for longest make room") {
  WorldConfig config;
  config.memory_bytes = 10 * 4096;
  World world(config);
  for (int i = 0; i < 20; ++i) world.store("key" + std::to_string(i), World::pattern(1, 4096));
  for (int i = 0; i < 20; ++i) {
    world.get({"key" + std::to_string(i)}, 4096);
    world.settle();
    world.get({"key0"}, 4096);
    world.settle();
  }
  CHECK(world.remote.get_pages == 20);
  CHECK(world.count("evicted") == 10);
  world.get({"key19", "key15"}, 4096);
  world.settle();
  CHECK(world.remote.get_pages == 20);
  world.get({"key5"}, 4096);
  world.settle();
  CHECK(world.remote.get_pages == 21);
}

TEST_CASE("an object that is not there is asked for again by the next one") {
  World world;
  Ask& missing = world.get({"key"}, 100);
  world.settle();
  CHECK(missing.replies[0].status == Status::not_found);
  world.store("key", World::pattern(3, 100));
  Ask& found = world.get({"key"}, 100);
  world.settle();
  CHECK(found.got(0) == World::pattern(3, 100));
}

TEST_CASE("tenants and namespaces do not share") {
  World world;
  world.store("key", World::pattern(1, 100), 1, 2);
  world.store("key", World::pattern(2, 100), 2, 2);
  world.get({"key"}, 100);
  World::Options other;
  other.tenant = 2;
  Ask& theirs = world.get({"key"}, 100, other);
  World::Options elsewhere;
  elsewhere.name_space = 3;
  Ask& nobodys = world.get({"key"}, 100, elsewhere);
  world.settle();
  CHECK(theirs.got(0) == World::pattern(2, 100));
  CHECK(nobodys.replies[0].status == Status::not_found);
}

TEST_CASE("one that joined with more time gets what the first one gave up on") {
  World world;
  world.store("key", World::pattern(1, 100));
  world.remote.holds_answers = true;
  World::Options impatient;
  impatient.timeout_ns = 50 * kNsPerMs;
  Ask& leader = world.get({"key"}, 100, impatient);
  world.turn();
  Ask& patient = world.get({"key"}, 100);
  world.pass(100 * kNsPerMs);
  REQUIRE(leader.done);
  CHECK(leader.replies[0].status == Status::timeout);
  CHECK_FALSE(patient.done);
  world.remote.holds_answers = false;
  world.settle();
  REQUIRE(patient.done);
  CHECK(patient.got(0) == World::pattern(1, 100));
}

TEST_CASE("an owner that answers nothing costs its requesters their time, and nothing stays") {
  World world;
  world.remote.holds_answers = true;
  world.remote.ignores_cancels = true;
  std::vector<Ask*> asks;
  for (int i = 0; i < 5; ++i) {
    asks.push_back(&world.get({"a" + std::to_string(i % 2), "b"}, 100));
    world.pass(10 * kNsPerMs);
  }
  const base::TimeNs last_ns = world.clock.now_ns() + kNsPerSecond;
  world.pass(1200 * kNsPerMs);
  for (const Ask* ask : asks) {
    REQUIRE(ask->done);
    CHECK(ask->status == Status::timeout);
    CHECK(ask->done_ns <= last_ns + 100 * kNsPerMs);
  }
  CHECK(world.shared_reads().requests_under_way() == 0);
  CHECK(world.shared_reads().shared_reads() == 0);
}

}  // namespace shared_read_server_test
