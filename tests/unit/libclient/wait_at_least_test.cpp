// Client::wait_at_least(): who is woken by how many batches. A batch of a stopped daemon ends when
// the test cancels it, so the order of the ends is the test's.
#include <doctest/doctest.h>
#include <time.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "fault_world.h"
#include "simm/simm.h"

namespace fault_test {

using simm::Completed;

// Batches that the daemon has taken and does not answer.
struct HeldBatches {
  explicit HeldBatches(World& world, std::size_t count, const Client::Callback& callback = {})
      : results(count) {
    world.daemon->stop();
    for (PageResult& result : results) {
      tickets.push_back(
          world.client->exists_async({&key, 1}, {&result, 1}, within(2 * kLongMs), callback)
              .value());
    }
    REQUIRE(world.daemon->wait_until_holding(static_cast<std::uint32_t>(count)));
  }
  void end(World& world, std::size_t count) {
    for (; count != 0; --count) REQUIRE(world.client->cancel(tickets[ended++]) == Status::ok);
  }
  const std::string_view key = "k";
  std::vector<PageResult> results;
  std::vector<std::uint64_t> tickets;
  std::size_t ended = 0;
};

std::uint64_t thread_cpu_ms() {
  timespec now{};
  REQUIRE(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

TEST_CASE("wait_at_least: each of several threads ends with its own number") {
  World world;
  HeldBatches batches(world, 6);
  constexpr std::array<std::size_t, 3> kWanted{1, 3, 6};
  std::array<std::atomic<std::size_t>, 3> got{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kWanted.size(); ++i) {
    threads.emplace_back([&, i] { got[i] = world.client->wait_at_least(kWanted[i], kLongMs); });
  }
  for (std::size_t i = 0; i < kWanted.size(); ++i) {
    batches.end(world, kWanted[i] - batches.ended);
    threads[i].join();
    CHECK(got[i] == kWanted[i]);
    for (std::size_t later = i + 1; later < kWanted.size(); ++later) CHECK(got[later] == 0);
  }
  std::vector<Completed> out(6);
  CHECK(world.client->drain(out) == 6);
  world.daemon->go_on();
}

TEST_CASE("wait_at_least: sleeps while fewer lie ready") {
  World world;
  world.client.reset();
  world.options.wait = simm::WaitMode::event;
  world.client.emplace(Client::connect(world.options).value());
  const int fd = world.client->completion_fd();
  REQUIRE(fd >= 0);
  HeldBatches batches(world, 3);
  batches.end(world, 1);
  constexpr std::uint32_t kWaitMs = 500;
  const auto start = Clock::now();
  const std::uint64_t cpu_ms = thread_cpu_ms();
  CHECK(world.client->wait_at_least(2, kWaitMs) == 1);
  CHECK(Clock::now() - start >= std::chrono::milliseconds(kWaitMs));
  CHECK(thread_cpu_ms() - cpu_ms < kWaitMs / 10);
  CHECK(world.client->wait_at_least(0, kLongMs) == 1);
  CHECK(world.client->wait_at_least(1, kLongMs) == 1);
  world.daemon->go_on();
  CHECK(world.client->wait_at_least(3, kLongMs) == 3);
  std::vector<Completed> out(3);
  CHECK(world.client->drain(out) == 3);
}

TEST_CASE("wait_at_least: ends when no other batch is pending, or the daemon dies") {
  World world;
  CHECK(world.client->wait_at_least(5, kLongMs) == 0);
  HeldBatches batches(world, 2);
  std::size_t got = 100;
  std::thread waiter([&] { got = world.client->wait_at_least(5, kLongMs); });
  SUBCASE("they are cancelled") {
    batches.end(world, 2);
    waiter.join();
    CHECK(got == 2);
  }
  SUBCASE("the daemon dies") {
    world.die();
    waiter.join();
    CHECK(got == 2);
    for (const PageResult& result : batches.results) CHECK(result.status == Status::unreachable);
  }
  SUBCASE("another thread takes them") {
    std::vector<Completed> out(1);
    batches.end(world, 1);
    // The waiting thread may be the one that ends the batch, a moment later.
    while (world.client->drain(out) == 0) std::this_thread::yield();
    batches.end(world, 1);
    (void)world.client->drain(out);
    waiter.join();
    CHECK(got <= 1);
  }
}

TEST_CASE("wait_at_least: callbacks count, and may close the Client") {
  World world;
  int called = 0;
  bool closes = false;
  HeldBatches batches(world, 3, [&](const Completed&) {
    ++called;
    if (closes) world.client.reset();
  });
  batches.end(world, 1);
  CHECK(world.client->wait_at_least(1, kLongMs) == 1);
  CHECK(called == 1);
  closes = true;
  world.daemon->go_on();
  CHECK(world.client->wait_at_least(2, kLongMs) >= 1);
  CHECK_FALSE(world.client.has_value());
}

TEST_CASE("simm_wait_at_least") {
  World world;
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  options.socket_path = world.options.socket_path.c_str();
  simm_client* client = nullptr;
  REQUIRE(simm_connect(&options, &client) == SIMM_OK);
  simm_item item{};
  item.key = "k";
  item.key_bytes = 1;
  simm_result results[3] = {};
  for (simm_result& result : results) {
    REQUIRE(simm_exists_async(client, &item, 1, &result, nullptr, nullptr, nullptr, nullptr) ==
            SIMM_OK);
  }
  CHECK(simm_wait_at_least(client, 3, kLongMs) == 3);
  CHECK(simm_wait_at_least(nullptr, 1, 0) == 0);
  simm_completed out[3];
  CHECK(simm_drain(client, out, 3) == 3);
  simm_close(client);
}

}  // namespace fault_test
