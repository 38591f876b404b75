// Threads that wait for asynchronous batches: of one Client, of Clients on one lane, and of Clients
// on lanes of their own, beside programs that sleep on descriptors. Nobody's wake-up is lost.
#include <doctest/doctest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "fault_world.h"

namespace fault_test {

using simm::Completed;

constexpr std::string_view kKey = "k";

// Whose threads sleep at once.
struct SleepyWorld : World {
  explicit SleepyWorld(std::uint32_t async_lanes) {
    client.reset();
    options.async_lanes = async_lanes;
    options.wait = simm::WaitMode::event;
    client.emplace(connect());
  }
  Client connect() { return Client::connect(options).value(); }
  void start(Client& by, PageResult& result) {
    REQUIRE(by.exists_async({&kKey, 1}, {&result, 1}, within(2 * kLongMs)).has_value());
  }
};

bool is_readable_soon(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, kLongMs / 4) == 1;
}

TEST_CASE("threads of Clients on few lanes: each hears of its own batches") {
  for (const std::uint32_t lanes : {1u, 2u}) {
    CAPTURE(lanes);
    SleepyWorld world(lanes);
    const auto start = Clock::now();
    std::vector<std::thread> threads;
    for (int i = 0; i < 5; ++i) {
      threads.emplace_back([&world, spins = i == 4] {
        Client client = world.connect();
        std::vector<Completed> out(2);
        for (int round = 0; round < 400; ++round) {
          std::array<PageResult, 2> results;
          for (PageResult& result : results) world.start(client, result);
          if (spins) {
            for (std::size_t got = 0; got < 2; got += client.drain(out)) continue;
          } else if (round % 2 == 0) {
            CHECK(client.wait_at_least(2, kLongMs) == 2);
            CHECK(client.drain(out) == 2);
          } else {
            for (std::size_t got = 0; got < 2; got += client.drain(out)) client.wait(kLongMs);
          }
          for (const PageResult& result : results) CHECK(result.status == Status::not_found);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(Clock::now() - start < std::chrono::milliseconds(kLongMs / 2));
  }
}

TEST_CASE("a thread that stops watching leaves the watch to another one") {
  SleepyWorld world(1);
  Client other = world.connect();
  const auto start = Clock::now();
  for (int round = 0; round < 50; ++round) {
    world.daemon->stop();
    std::array<PageResult, 2> results;
    const std::uint64_t ticket =
        world.client->exists_async({&kKey, 1}, {results.data(), 1}, within(2 * kLongMs)).value();
    world.start(other, results[1]);
    REQUIRE(world.daemon->wait_until_holding(2));
    // Whoever comes first is likely to watch.
    std::array<std::thread, 2> threads;
    for (const int i : {round % 2, 1 - round % 2}) {
      std::atomic<bool> is_there{false};
      threads[static_cast<std::size_t>(i)] = std::thread([&, i] {
        is_there = true;
        (i == 0 ? *world.client : other).wait(kLongMs);
      });
      while (!is_there) std::this_thread::yield();
    }
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    REQUIRE(world.client->cancel(ticket) == Status::ok);
    threads[0].join();
    world.daemon->go_on();
    threads[1].join();
    std::vector<Completed> out(1);
    CHECK(world.client->drain(out) == 1);
    CHECK(other.drain(out) == 1);
  }
  CHECK(Clock::now() - start < std::chrono::milliseconds(kLongMs / 2));
}

TEST_CASE("the descriptor tells also after a thread has waited, and while one waits") {
  SleepyWorld world(1);
  Client waiting = world.connect();
  Client& polling = *world.client;
  const int fd = polling.completion_fd();
  REQUIRE(fd >= 0);
  std::vector<Completed> out(1);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    world.daemon->stop();
    std::array<PageResult, 2> results;
    world.start(polling, results[0]);
    const std::uint64_t ticket =
        waiting.exists_async({&kKey, 1}, {&results[1], 1}, within(2 * kLongMs)).value();
    REQUIRE(world.daemon->wait_until_holding(2));
    std::thread waiter([&] { waiting.wait(kLongMs); });
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    const bool while_waiting = round % 2 == 0;
    if (!while_waiting) {
      REQUIRE(waiting.cancel(ticket) == Status::ok);
      waiter.join();
    }
    world.daemon->go_on();
    for (std::size_t got = 0; got == 0; got = polling.drain(out)) REQUIRE(is_readable_soon(fd));
    if (while_waiting) waiter.join();
    CHECK(waiting.drain(out) == 1);
  }
}

// The bell is one for all lanes: whoever reads it tells the others.
TEST_CASE("descriptors of Clients on lanes of their own: no wake-up is lost to the other") {
  SleepyWorld world(2);
  Client other = world.connect();
  const std::array<int, 2> fds{world.client->completion_fd(), other.completion_fd()};
  std::atomic<bool> is_over{false};
  std::thread poller([&] {  // takes the bell's messages before anybody else sees them
    while (!is_over) CHECK(other.poll() == 0);
  });
  std::vector<Completed> out(1);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    PageResult result;
    world.start(*world.client, result);
    std::size_t got = 0;
    for (; got == 0; got = world.client->drain(out)) {
      if (!is_readable_soon(fds[0])) break;
    }
    CHECK(got == 1);
    if (got == 0) break;
  }
  is_over = true;
  poller.join();
}

}  // namespace fault_test
