// What requesters can do to each other through shared reads, and what ends how when something
// fails.
#include <string>
#include <vector>

#include "tests/unit/daemon/shared_reads/shared_read_world.h"

namespace shared_read_fault_test {

using namespace shared_read_world;
using base::kNsPerMs;
using base::kNsPerSecond;
using ipc::Opcode;

World::Options of_tenant(std::uint64_t tenant) {
  World::Options options;
  options.tenant = tenant;
  return options;
}

std::vector<std::string> keys(const std::string& name, int count) {
  std::vector<std::string> made;
  for (int i = 0; i < count; ++i) made.push_back(name + std::to_string(i));
  return made;
}

void store_all(World& world, const std::vector<std::string>& names, std::uint64_t bytes,
               std::uint64_t tenant = 1) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    world.store(names[i], World::pattern(i, bytes), tenant);
  }
}

bool has_all(Ask& ask, std::uint64_t bytes) {
  if (!ask.done) return false;
  for (std::size_t i = 0; i < ask.keys.size(); ++i) {
    if (ask.replies[i].status != Status::ok || ask.got(i) != World::pattern(i, bytes)) return false;
  }
  return true;
}

TEST_CASE("one page that fails is that page's failure, for all who wait for it") {
  World world;
  const auto names = keys("key", 6);
  store_all(world, names, 100);
  world.remote.objects.erase(Name{1, 2, "key1"});
  world.remote.failures = {{"key3", Status::corrupt}, {"key4", Status::transfer_failed}};
  const std::vector<Ask*> ranks = {&world.get(names, 100), &world.get(names, 100)};
  world.settle();
  const std::vector<Status> expected = {Status::ok,        Status::not_found,       Status::ok,
                                        Status::not_found, Status::transfer_failed, Status::ok};
  for (Ask* rank : ranks) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      CHECK(rank->replies[i].status == expected[i]);
      if (expected[i] == Status::ok) CHECK(rank->got(i) == World::pattern(i, 100));
    }
  }
  CHECK(world.remote.get_pages == 6);
  world.remote.failures.clear();
  Ask& again = world.get({"key3"}, 100);
  world.settle();
  CHECK(again.got(0) == World::pattern(3, 100));
}

TEST_CASE("a requester whose memory fails, or whose copy hangs, harms only itself") {
  World world;
  const auto names = keys("key", 5);
  store_all(world, names, 10'000);
  for (const bool hangs : {false, true}) {
    for (const int bad : {0, 1}) {  // the leader, or one that joined
      World::Options options;
      options.timeout_ns = 100 * kNsPerMs;
      std::vector<Ask*> ranks;
      for (int i = 0; i < 3; ++i) ranks.push_back(&world.get(names, 10'000, options));
      const memory::Region* const region = &ranks[static_cast<std::size_t>(bad)]->region;
      const auto is_bad = [region](const memory::Region& other) { return &other == region; };
      (hangs ? world.mover.hangs : world.mover.fails) = is_bad;
      for (int i = 0; i < 100; ++i) world.turn();
      for (int i = 0; i < 3; ++i) {
        if (i != bad) CHECK(has_all(*ranks[static_cast<std::size_t>(i)], 10'000));
      }
      world.pass(200 * kNsPerMs);
      const Ask& harmed = *ranks[static_cast<std::size_t>(bad)];
      REQUIRE(harmed.done);
      for (const auto& reply : harmed.replies) {
        CHECK(reply.status == (hangs ? Status::timeout : Status::transfer_failed));
      }
      world.mover.hangs = world.mover.fails = nullptr;
      world.pass(3 * kNsPerSecond);  // the next one fetches anew
    }
  }
  CHECK(world.remote.get_pages == 4 * 5);
}

TEST_CASE("a leader that is fenced, while it waits or is served, costs the others nothing") {
  WorldConfig config;
  config.agents = 2;
  World world(config);
  const auto names = keys("key", 16);  // some of them meet at the other agent
  store_all(world, names, 10'000);
  World::Options leading;
  leading.agent = 1;
  leading.timeout_ns = 50 * kNsPerMs;
  World::Options following;
  following.agent = 1;
  world.remote.holds_answers = true;
  Ask& leader = world.get(names, 10'000, leading);
  Ask& follower = world.get(names, 10'000, following);
  for (int i = 0; i < 4; ++i) world.turn();
  SUBCASE("waiting") {}
  SUBCASE("being served") {
    world.mover.hangs = [&leader](const memory::Region& region) {
      return &region == &leader.region;
    };
    world.remote.holds_answers = false;
    for (int i = 0; i < 4; ++i) world.turn();
  }
  for (int i = 0; i < 55; ++i) {  // the other agent does not get to answer a cancel in time
    world.clock.advance_ns(kNsPerMs);
    world.turn(1);
  }
  CHECK_FALSE(leader.done);
  for (int i = 0; i < 4; ++i) world.turn();
  REQUIRE(leader.done);
  CHECK(leader.status == Status::timeout);
  world.remote.holds_answers = false;
  world.pass(100 * kNsPerMs);
  CHECK(has_all(follower, 10'000));
  world.audit();
}

TEST_CASE("what everybody gave up before it was fetched is not fetched") {
  WorldConfig config;
  config.shared_reads.fetches_max = 1;
  config.shared_reads.fetch_pages_max = 1;
  World world(config);
  const auto names = keys("key", 10);
  store_all(world, names, 100);
  world.remote.holds_answers = true;
  World::Options options;
  options.timeout_ns = 50 * kNsPerMs;
  Ask& ask = world.get(names, 100, options);
  world.turn();
  CHECK(world.shared_reads().shared_reads() == 10);
  world.pass(60 * kNsPerMs);
  CHECK(ask.done);
  CHECK(world.shared_reads().shared_reads() == 0);
  CHECK(world.count("fetched_pages") == 1);
}

TEST_CASE("a tenant can not use up what others need") {
  WorldConfig config;
  config.memory_bytes = 1 << 20;
  config.shared_reads.shared_reads_max = 400;
  config.shared_reads.waiters_max = 400;
  config.shared_reads.fetches_max = 10;
  config.shared_reads.fetch_pages_max = 4;
  World world(config);
  std::uint64_t view_bytes = 1000;
  SUBCASE("by bytes") {
    view_bytes = 10'000;
  }
  SUBCASE("by shared reads") {}
  const auto theirs = keys("hostile", 390);
  const auto ours = keys("key", 4);
  store_all(world, theirs, 1000);
  store_all(world, ours, 1000, 2);
  world.remote.holds_answers = true;  // they ask for what takes long
  for (int i = 0; i < 3; ++i) world.get(theirs, view_bytes);
  for (int i = 0; i < 10; ++i) world.turn();
  const std::uint64_t declined = world.count("declined");
  CHECK(declined > 0);
  Ask& one = world.get(ours, 1000, of_tenant(2));
  Ask& two = world.get(ours, 1000, of_tenant(2));
  world.turn();
  CHECK(world.count("declined") == declined);
  world.remote.holds_answers = false;
  world.settle();
  CHECK(has_all(one, 1000));
  CHECK(has_all(two, 1000));
}

TEST_CASE("a tenant's queue is its own") {
  WorldConfig config;
  config.shared_reads.fetches_max = 1;
  config.shared_reads.fetch_pages_max = 4;
  World world(config);
  const auto theirs = keys("many", 400);
  store_all(world, theirs, 1000);
  world.store("key", World::pattern(7, 1000), 2);
  Ask& many = world.get(theirs, 1000);
  world.turn();
  Ask& one = world.get({"key"}, 1000, of_tenant(2));
  int turns = 0;
  for (; !one.done && turns < 1000; ++turns) world.turn();
  CHECK(one.got(0) == World::pattern(7, 1000));
  CHECK_FALSE(many.done);
  CHECK(world.remote.get_pages <= 3 * 4 + 1);
  world.settle();
  CHECK(has_all(many, 1000));
}

TEST_CASE("a tenant that reads much takes no more than its part from the copies of others") {
  WorldConfig config;
  config.memory_bytes = 40 * 1024;
  World world(config);
  const auto ours = keys("key", 10);
  const auto theirs = keys("scan", 200);
  store_all(world, ours, 1024, 2);
  store_all(world, theirs, 1024);
  world.get(ours, 1024, of_tenant(2));
  world.settle();
  for (const std::string& key : theirs) {
    world.get({key}, 1024);
    world.settle();
  }
  const std::uint64_t before = world.remote.get_pages;
  Ask& again = world.get(ours, 1024, of_tenant(2));
  world.settle();
  CHECK(has_all(again, 1024));
  CHECK(world.remote.get_pages == before);
  // When they are too old they are anybody's.
  world.pass(2100 * kNsPerMs);
  for (const std::string& key : theirs) {
    world.get({key}, 1024);
    world.settle();
  }
  const shared_reads::TenantShares& shares = world.shared_reads().shares();
  for (std::uint32_t i = 0; i < shares.size(); ++i) {
    if (shares[i].tenant == base::TenantId{1}) CHECK(shares[i].shared_reads == 40);
    if (shares[i].tenant == base::TenantId{2}) CHECK(shares[i].shared_reads == 0);
  }
}

TEST_CASE("one who asks for a longer lease than the fetch did gets one of its own") {
  World world;
  world.store("key", World::pattern(1, 100));
  World::Options longer;
  longer.lease_ms = 30'000;
  World::Options shorter;
  shorter.lease_ms = 20'000;
  for (const World::Options& options : {World::Options{}, longer, shorter, longer}) {
    Ask& ask = world.get({"key"}, 100, options);
    world.settle();
    CHECK(ask.got(0) == World::pattern(1, 100));
  }
  CHECK(world.remote.leases_ms == std::vector<std::uint32_t>{0, 30'000});
}

TEST_CASE("leases do not mix in one fetch") {
  World world;
  store_all(world, keys("key", 4), 100);
  world.remote.holds_answers = true;
  World::Options longer;
  longer.lease_ms = 30'000;
  Ask& first = world.get({"key0", "key1"}, 100);
  Ask& second = world.get({"key2", "key3"}, 100, longer);
  world.turn();
  world.remote.holds_answers = false;
  world.settle();
  CHECK(first.replies[0].status == Status::ok);
  CHECK(second.replies[0].status == Status::ok);
  CHECK(world.remote.leases_ms == std::vector<std::uint32_t>{0, 0, 30'000, 30'000});
}

TEST_CASE("turns of shared reads allocate nothing") {
  WorldConfig config;
  config.memory_bytes = 64 * 1024;
  World world(config);
  const auto names = keys("key", 200);
  store_all(world, names, 1000);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 3; ++i) world.get(names, 1000);
    world.settle();
    world.clock.advance_ns(kNsPerSecond);
  }
  CHECK(world.count("hits") > 0);
  CHECK(world.count("evicted") > 0);
  CHECK(world.count("declined") > 0);
  CHECK(allocations() > 0);
  CHECK(world.shared_read_allocations == 0);
}

TEST_CASE("who waits for a fetch over a slow line waits as long as the line moves") {
  WorldConfig config;
  config.agents = 2;
  World world(config);
  const auto names = keys("key", 4);
  store_all(world, names, 100);
  world.remote.holds_answers = true;
  World::Options patient;
  patient.timeout_ns = 10 * kNsPerSecond;
  patient.patience_ns = kNsPerSecond;
  std::vector<Ask*> ranks;
  for (const std::uint32_t agent : {0u, 1u}) {
    patient.agent = agent;
    ranks.push_back(&world.get(names, 100, patient));
  }
  for (int step = 0; step < 60; ++step) {
    ++world.remote.moved;
    world.pass(50 * kNsPerMs);
  }
  for (const Ask* rank : ranks) CHECK_FALSE(rank->done);
  const base::TimeNs stands_ns = world.clock.now_ns();
  SUBCASE("it brings the objects") {
    world.remote.holds_answers = false;
    world.settle();
    for (Ask* rank : ranks) CHECK(has_all(*rank, 100));
    CHECK(world.remote.get_pages == names.size());
  }
  SUBCASE("it stands: they give up long before their deadline") {
    world.pass(3 * kNsPerSecond);
    for (const Ask* rank : ranks) {
      REQUIRE(rank->done);
      CHECK(rank->done_ns <= stands_ns + 2 * kNsPerSecond);
      for (const auto& page : rank->replies) CHECK(page.status == Status::timeout);
    }
  }
}

}  // namespace shared_read_fault_test
