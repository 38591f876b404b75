// Client::cancel(): what ends as cancelled, when, and that nothing touches the memory afterwards.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "fault_world.h"
#include "simm/simm.h"

namespace fault_test {

using simm::Completed;

constexpr std::size_t kPage = 512;
constexpr std::byte kCanary{0xa5};

std::byte byte_of(std::size_t page) {
  return static_cast<std::byte>(page % 100 + 1);
}

bool all_bytes(const std::byte* at, std::byte value) {
  return at[0] == value && std::memcmp(at, at + 1, kPage - 1) == 0;
}

// Pages in one region, all of them stored.
struct Pages {
  Pages(World& world, Region taken, std::size_t count) : region(std::move(taken)) {
    for (std::size_t i = 0; i < count; ++i) keys.push_back("page" + std::to_string(i));
    for (std::size_t i = 0; i < count; ++i) {
      std::memset(at(i), static_cast<int>(byte_of(i)), kPage);
      items.push_back({keys[i], View(region, i * kPage, kPage), 0, 0});
    }
    results.resize(count);
    names.assign(keys.begin(), keys.end());
    REQUIRE(world.client->put(items, results, within(60'000)) == Status::ok);
    forget();
  }
  std::byte* at(std::size_t page) { return region.data() + page * kPage; }
  void forget() {
    std::memset(region.data(), static_cast<int>(kCanary), items.size() * kPage);
    for (PageResult& result : results) result = {};
  }
  // Every page is there or was not touched. Returns how many were cancelled.
  std::size_t check() {
    std::size_t cancelled = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      CAPTURE(i);
      if (results[i].status == Status::cancelled) {
        ++cancelled;
        REQUIRE(results[i].bytes == 0);
        REQUIRE(all_bytes(at(i), kCanary));
      } else {
        REQUIRE(results[i].ok());
        REQUIRE(all_bytes(at(i), byte_of(i)));
      }
    }
    return cancelled;
  }

  Region region;
  std::vector<std::string> keys;
  std::vector<std::string_view> names;
  std::vector<Item> items;
  std::vector<PageResult> results;
};

Completed take_one(World& world) {
  Completed out[2];
  for (int i = 0; i < 1000; ++i) {
    world.client->wait(60'000);
    const std::size_t got = world.client->drain(out);
    if (got == 0) continue;
    REQUIRE(got == 1);
    return out[0];
  }
  FAIL("no batch has ended");
  return {};
}

TEST_CASE("cancel: a batch out of whose memory the daemon is ends at once, also of a stopped one") {
  World world;
  std::vector<std::byte> memory(5000 * kPage);
  Pages pages(world, world.client->register_region(memory.data(), memory.size()).value(), 5000);
  REQUIRE(pages.region.kind() == RegionKind::staged);
  // Both lanes have their staging memory then.
  REQUIRE(world.client->get_async(pages.items, pages.results, within(60'000)).has_value());
  CHECK(take_one(world).status == Status::ok);
  pages.forget();
  world.daemon->stop();
  std::uint64_t ticket = 0;
  SUBCASE("exists") {
    ticket = world.client->exists_async(pages.names, pages.results, within(60'000)).value();
  }
  SUBCASE("get of staged memory") {
    ticket = world.client->get_async(pages.items, pages.results, within(60'000)).value();
  }
  REQUIRE(world.daemon->wait_until_holding(1));
  CHECK_FALSE(world.client->has_completed(ticket));
  CHECK(world.client->cancel(ticket) == Status::ok);
  CHECK(world.client->has_completed(ticket));
  CHECK(world.client->cancel(ticket) == Status::not_found);
  CHECK(std::string(simm::last_error()).find(std::to_string(ticket)) != std::string::npos);
  const Completed end = take_one(world);
  CHECK(end.ticket == ticket);
  CHECK(end.status == Status::cancelled);
  CHECK(world.client->pending() == 0);
  CHECK(pages.check() == 5000);
  world.daemon->go_on();
  REQUIRE(world.daemon->wait_until_idle());
  // The late answers are for nobody.
  for (int round = 0; round < 3; ++round) {
    REQUIRE(world.client->exists_async(pages.names, pages.results).has_value());
    CHECK(take_one(world).status == Status::ok);
    for (const PageResult& result : pages.results) REQUIRE(result.ok());
  }
  for (std::size_t i = 0; i < pages.items.size(); ++i) REQUIRE(all_bytes(pages.at(i), kCanary));
  CHECK(world.daemon->counts().hellos == 1);
}

TEST_CASE("cancel: pages that the daemon writes into keep its answer, the others are cancelled") {
  World world;
  Pages pages(world, world.client->allocate_region(6000 * kPage).value(), 6000);
  world.daemon->stop();
  const std::uint64_t ticket =
      world.client->get_async(pages.items, pages.results, within(60'000)).value();
  REQUIRE(world.daemon->wait_until_holding(1));
  CHECK(world.client->cancel(ticket) == Status::ok);
  CHECK(world.client->cancel(ticket) == Status::ok);  // it has not ended
  CHECK_FALSE(world.client->has_completed(ticket));
  const std::uint32_t taken = world.daemon->counts().pages - 6000;  // those of the put are first
  world.daemon->go_on();
  CHECK(take_one(world).status == Status::cancelled);
  const std::size_t cancelled = pages.check();
  CHECK(cancelled > 0);
  CHECK(cancelled < 6000);
  CHECK(cancelled <= 6000 - taken);
  CHECK(pages.region.kind() == RegionKind::shared);
}

TEST_CASE(
    "cancel: of a stopped daemon the pages are taken back at the deadline, of a dead at once") {
  World world;
  Pages pages(world, world.client->allocate_region(6000 * kPage).value(), 6000);
  world.daemon->stop();
  bool dies = false;
  SUBCASE("stopped") {}
  SUBCASE("dead") {
    dies = true;
  }
  const std::uint64_t ticket =
      world.client->get_async(pages.items, pages.results, within(dies ? 60'000 : 200)).value();
  REQUIRE(world.daemon->wait_until_holding(1));
  CHECK(world.client->cancel(ticket) == Status::ok);
  if (dies) world.die();
  CHECK(take_one(world).ticket == ticket);
  const Status others = dies ? Status::unreachable : Status::timeout;
  std::size_t cancelled = 0;
  for (const PageResult& result : pages.results) {
    cancelled += result.status == Status::cancelled ? 1 : 0;
    REQUIRE((result.status == Status::cancelled || result.status == others));
  }
  CHECK(cancelled > 0);
  CHECK(cancelled < 6000);
  std::memset(pages.region.data(), static_cast<int>(kCanary), 6000 * kPage);
  if (!dies) {
    world.daemon->go_on();
    REQUIRE(world.daemon->wait_until_idle());
  }
  for (std::size_t i = 0; i < 6000; ++i) REQUIRE(all_bytes(pages.at(i), kCanary));
}

TEST_CASE("cancel: a page whose memory is absent is not submitted once more") {
  World world;
  world.die();
  world.fake.maps_in_vain = true;
  world.come_back();
  REQUIRE(world.wait_until_back());
  Region region = world.client->allocate_region(4096).value();
  const Item item{"k", View(region, 0, kPage), 0, 0};
  {
    const std::lock_guard lock(world.store->mutex);
    world.store->objects["/k"] = std::string(kPage, 'x');
  }
  PageResult result;
  world.daemon->stop();
  const std::uint64_t ticket =
      world.client->get_async({&item, 1}, {&result, 1}, within(60'000)).value();
  REQUIRE(world.daemon->wait_until_holding(1));
  CHECK(world.client->cancel(ticket) == Status::ok);
  world.daemon->go_on();
  CHECK(take_one(world).status == Status::cancelled);
  CHECK(result.status == Status::cancelled);
  CHECK(world.daemon->counts().absent == 1);
}

TEST_CASE("cancel: from a callback, of a batch that has ended, of none, of another Client's") {
  World world;
  Client other = Client::connect(world.options).value();
  const std::string_view key = "k";
  PageResult results[3];
  world.daemon->stop();
  const std::uint64_t slow =
      world.client->exists_async({&key, 1}, {&results[0], 1}, within(60'000)).value();
  REQUIRE(world.daemon->wait_until_holding(1));
  CHECK(other.cancel(slow) == Status::not_found);
  CHECK(world.client->cancel(slow + 256) == Status::not_found);
  CHECK(world.client->cancel(0) == Status::not_found);
  int called = 0;
  const auto first = world.client->exists_async(
      {&key, 1}, {&results[1], 1}, within(60'000), [&](const Completed& end) {
        ++called;
        CHECK(end.status == Status::cancelled);
        CHECK(world.client->cancel(end.ticket) == Status::not_found);
        CHECK(world.client->cancel(slow) == Status::ok);
      });
  CHECK(world.client->cancel(*first) == Status::ok);
  CHECK(called == 0);  // poll() and wait() alone call back
  CHECK(world.client->poll() == 1);
  CHECK(called == 1);
  CHECK(take_one(world).ticket == slow);
  CHECK(world.client->pending() == 0);
  world.daemon->go_on();
}

TEST_CASE("cancel races with the end: each batch ends once, each page is whole or untouched") {
  const unsigned seed = std::random_device{}();
  MESSAGE("seed " << seed);
  World world;
  std::vector<std::byte> memory(64 * kPage);
  Pages shared(world, world.client->allocate_region(64 * kPage).value(), 64);
  Pages staged(world, world.client->register_region(memory.data(), memory.size()).value(), 64);
  std::atomic<std::uint64_t> newest{0};
  std::atomic<bool> ended{false};
  std::thread canceller([&] {
    while (!ended) {
      const std::uint64_t ticket = newest;
      if (ticket != 0) (void)world.client->cancel(ticket);
      std::this_thread::yield();
    }
  });
  std::mt19937 random(seed);
  std::size_t cancelled = 0;
  for (int round = 0; round < 400; ++round) {
    Pages& pages = random() % 2 == 0 ? shared : staged;
    pages.forget();
    const std::uint64_t ticket =
        world.client->get_async(pages.items, pages.results, within(60'000)).value();
    const auto spins = static_cast<unsigned>(random() % 2000);
    for (std::atomic<unsigned> i{0}; i < spins; ++i) {
    }
    newest = ticket;
    if (random() % 2 == 0) (void)world.client->cancel(ticket);
    const Completed end = take_one(world);
    CHECK(end.ticket == ticket);
    const std::size_t here = pages.check();
    CHECK((end.status == Status::cancelled) == (here != 0));
    cancelled += here;
  }
  ended = true;
  canceller.join();
  MESSAGE("pages cancelled: " << cancelled);
  CHECK(world.client->pending() == 0);
  CHECK(world.daemon->counts().hellos == 1);
}

TEST_CASE("simm_cancel") {
  World world;
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  options.socket_path = world.options.socket_path.c_str();
  simm_client* client = nullptr;
  REQUIRE(simm_connect(&options, &client) == SIMM_OK);
  world.daemon->stop();
  simm_item item{};
  item.key = "k";
  item.key_bytes = 1;
  simm_result result{};
  std::uint64_t ticket = 0;
  REQUIRE(simm_exists_async(client, &item, 1, &result, nullptr, nullptr, nullptr, &ticket) ==
          SIMM_OK);
  REQUIRE(world.daemon->wait_until_holding(1));
  CHECK(simm_cancel(client, ticket) == SIMM_OK);
  CHECK(simm_cancel(client, ticket) == SIMM_NOT_FOUND);
  CHECK(simm_cancel(nullptr, ticket) == SIMM_INVALID_ARGUMENT);
  simm_completed out{};
  CHECK(simm_drain(client, &out, 1) == 1);
  CHECK(out.status == SIMM_CANCELLED);
  CHECK(result.status == SIMM_CANCELLED);
  CHECK(std::string(simm_status_name(SIMM_CANCELLED)) == "cancelled");
  world.daemon->go_on();
  simm_close(client);
}

}  // namespace fault_test
