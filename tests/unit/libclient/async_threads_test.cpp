// Threads that wait for asynchronous batches: of one Client, of Clients on one lane, and of Clients
// on lanes of their own, beside programs that sleep on descriptors. Nobody's wake-up is lost, also
// when another thread hands a batch back.
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
  for (int round = 0; round < 50; ++round) {
    const auto start = Clock::now();
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
    for (int i = 0; i < 10; ++i) std::this_thread::yield();
    REQUIRE(world.client->cancel(ticket) == Status::ok);
    threads[0].join();
    world.daemon->go_on();
    threads[1].join();
    std::vector<Completed> out(1);
    CHECK(world.client->drain(out) == 1);
    CHECK(other.drain(out) == 1);
    CHECK(Clock::now() - start < std::chrono::milliseconds(kLongMs / 2));
  }
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
    for (int i = 0; i < 10; ++i) std::this_thread::yield();
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

// A Client with a batch that nobody ends, and others that the test ends. The daemon holds them all.
struct SharedClient : SleepyWorld {
  SharedClient() : SleepyWorld(1) {
    daemon->stop();
    start(*client, held);
  }
  ~SharedClient() { daemon->go_on(); }
  std::uint64_t begin(const Client::Callback& callback = {}) {
    return client->exists_async({&kKey, 1}, {&ended, 1}, within(2 * kLongMs), callback).value();
  }
  // Ends the batch, and takes it unless another thread is quicker.
  void hand_back(std::uint64_t ticket, std::size_t& handed) {
    REQUIRE(client->cancel(ticket) == Status::ok);
    std::array<Completed, 1> out;
    handed = client->poll() + client->drain(out);
  }

  PageResult held, ended;
};

TEST_CASE("a wait() ends when another thread has handed back a batch of the waiting one") {
  SharedClient world;
  Client& client = *world.client;
  std::size_t handed = 0;
  const auto by_another = [&](const Client::Callback& callback) {
    const std::uint64_t ticket = world.begin(callback);
    std::thread([&] {
      try {
        world.hand_back(ticket, handed);
      } catch (int) {
        handed = 1;
      }
    }).join();
    REQUIRE(handed == 1);
  };
  const auto start = Clock::now();
  const std::array<Client::Callback, 3> ends{Client::Callback(), [](const Completed&) {},
                                             [](const Completed&) { throw 1; }};
  for (const Client::Callback& callback : ends) {
    by_another(callback);
    client.wait(kLongMs);
    by_another(callback);
    CHECK(client.wait_at_least(1, kLongMs) == 1);
  }
  CHECK(Clock::now() - start < std::chrono::milliseconds(kLongMs / 2));
  constexpr std::uint32_t kShortMs = 20;
  const auto told = Clock::now();
  client.wait(kShortMs);  // each is told once
  CHECK(Clock::now() - told >= std::chrono::milliseconds(kShortMs));
  by_another({});
  std::array<Completed, 1> out;
  const std::uint64_t own = world.begin();  // a thread that starts again has looked
  const auto looked = Clock::now();
  client.wait(kShortMs);
  CHECK(Clock::now() - looked >= std::chrono::milliseconds(kShortMs));
  REQUIRE(client.cancel(own) == Status::ok);
  CHECK(client.drain(out) == 1);
}

TEST_CASE("a thread that sleeps in wait() hears when another one hands its batch back") {
  SharedClient world;
  std::size_t by_others = 0;
  for (int round = 0; round < 100; ++round) {
    const auto start = Clock::now();
    std::atomic<std::uint64_t> ticket{0};
    std::atomic<bool> is_done{false};
    std::thread starter([&] {
      ticket = world.begin([&](const Completed&) { is_done = true; });
      while (!is_done) world.client->wait(kLongMs);
    });
    while (ticket == 0) std::this_thread::yield();
    for (int i = 0; i < round % 8; ++i) std::this_thread::yield();
    std::size_t handed = 0;
    world.hand_back(ticket, handed);
    by_others += handed;
    starter.join();
    CHECK(Clock::now() - start < std::chrono::milliseconds(kLongMs / 2));
  }
  CHECK(by_others != 0);
}

}  // namespace fault_test
