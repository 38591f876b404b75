// Several tenants behind one engine: who comes later finds a credit, and his turn.
#include <map>
#include <random>

#include "daemon/engine/engine.h"
#include "daemon/engine/route_shares.h"
#include "tests/unit/daemon/engine/engine_world.h"

namespace engine_tenants_test {

using namespace engine_world;
using base::kNsPerMs;
using ipc::Opcode;

constexpr base::TimeNs kHour = 3600 * base::kNsPerSecond;

void submit_of(World& world, std::uint64_t tenant) {
  Operation& operation = world.make(Opcode::get, 1, kHour);
  operation.header.tenant = {tenant};
  world.engine->submit(operation);
}
std::size_t posts_of(const World& world, std::uint64_t tenant) {
  const auto& posts = world.requester.posts;
  return static_cast<std::size_t>(std::count_if(posts.begin(), posts.end(), [&](const auto& post) {
    return post.request.header.tenant == base::TenantId{tenant};
  }));
}

TEST_CASE("a tenant that wants all credits of a path leaves some for those that come later") {
  World world;
  world.requester.credits = 20;
  world.requester.leaves_credits = true;
  for (int i = 0; i < 100; ++i) submit_of(world, 1);
  world.pass(10 * kNsPerMs);
  CHECK(posts_of(world, 1) == 16);
  for (int i = 0; i < 10; ++i) submit_of(world, 2);
  CHECK(posts_of(world, 2) == 3);
  submit_of(world, 3);
  CHECK(posts_of(world, 3) == 1);
  world.pass(10 * kNsPerMs);
  CHECK(world.requester.posts.size() == 20);
}

TEST_CASE("credits are counted for each path, so a busy one costs a tenant nothing on another") {
  World world({}, 2);
  world.requester.credits = 400;
  world.requester.leaves_credits = true;
  for (int i = 0; i < 100; ++i) {
    Operation& operation = world.make(Opcode::exists, 1, kHour, std::to_string(i));
    world.engine->submit(operation);
  }
  std::map<std::uint16_t, std::uint32_t> held;
  for (const auto& post : world.requester.posts) {
    const std::uint32_t before = held[post.route.shard]++;
    CHECK(post.request.credits_keep == (before == 0 ? 0 : (before + 4) / 4));
  }
  CHECK(held.size() == 2);
  // What was answered holds nothing.
  for (std::size_t i = 0; i < 100; ++i) world.requester.reply_all_pages(i, Status::ok);
  world.engine->do_work();
  submit_of(world, 1);
  CHECK(world.requester.posts.back().request.credits_keep == 0);
}

TEST_CASE("tenants that wait for a credit have turns, however many requests one of them has") {
  World world;
  world.requester.credits = 4;
  for (int i = 0; i < 500; ++i) submit_of(world, 1);
  for (int i = 0; i < 4; ++i) submit_of(world, 2);
  CHECK(posts_of(world, 2) == 0);
  for (std::size_t done = 0; done < 8; ++done) {
    world.requester.reply_all_pages(done, Status::ok, 1);
    world.engine->do_work();
  }
  CHECK(posts_of(world, 2) == 4);
  CHECK(world.requester.posts.size() == 12);
  std::size_t done = 8;
  for (int turn = 0; turn < 2000 && world.outcomes.size() < 504; ++turn) {
    while (done < world.requester.posts.size()) {
      world.requester.reply_all_pages(done++, Status::ok, 1);
    }
    world.engine->do_work();
  }
  CHECK(world.outcomes.size() == 504);
}

TEST_CASE("messages of one tenant's batches leave one for the first of every other batch") {
  engine::EngineConfig config;
  config.operations = 8;
  config.requests = 32;
  World world(config, 8);
  for (int i = 0; i < 7; ++i) world.submit(Opcode::exists, 300, kHour);
  submit_of(world, 2);
  CHECK(posts_of(world, 2) == 1);
}

TEST_CASE("shares of routes: what the table says is what is held, whatever came and went") {
  const char* const given = std::getenv("SIMM_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0))
                                     : std::random_device{}();
  MESSAGE("SIMM_TEST_SEED=" << seed << " unit_engine -tc='shares of routes*'");
  std::minstd_rand random(seed);
  engine::RouteShares shares(32);
  using Place = std::pair<std::uint64_t, std::uint16_t>;
  std::map<Place, engine::RouteShares::Held> held;
  std::vector<std::pair<Place, std::uint32_t>> out;  // and its bytes
  for (int step = 0; step < 200'000; ++step) {
    const Place place{random() % 12, static_cast<std::uint16_t>(random() % 6)};
    const Route route{base::PeerId{place.second % 2u}, place.second};
    const auto now = held[place];
    REQUIRE(shares.of({place.first}, route).requests == now.requests);
    REQUIRE(shares.of({place.first}, route).key_bytes == now.key_bytes);
    REQUIRE(now.keep() == (now.requests == 0 ? 0 : (now.requests + 4) / 4));
    if (out.size() < 32 && random() % 2 == 0) {
      const std::uint32_t bytes =
          random() % 3 == 0 ? 0 : static_cast<std::uint32_t>(random() % 999);
      shares.add({place.first}, route, bytes);
      ++held[place].requests;
      held[place].key_bytes += bytes;
      out.push_back({place, bytes});
    } else if (!out.empty()) {
      std::swap(out[random() % out.size()], out.back());
      const auto [gone, bytes] = out.back();
      out.pop_back();
      shares.remove({gone.first}, {base::PeerId{gone.second % 2u}, gone.second}, bytes);
      --held[gone].requests;
      held[gone].key_bytes -= bytes;
    }
  }
}

}  // namespace engine_tenants_test
