// Asynchronous batches: callbacks, drain, the descriptor, deadlines, many at once.
#include <doctest/doctest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fake_daemon.h"
#include "simm/client.h"

namespace async_test {

using libclient_test::FakeDaemon;
using libclient_test::FakeOptions;
using libclient_test::SocketPlace;
using simm::CallOptions;
using simm::Client;
using simm::ClientOptions;
using simm::Completed;
using simm::Item;
using simm::PageResult;
using simm::Status;
using simm::View;

struct World {
  explicit World(simm::WaitMode wait = simm::WaitMode::adaptive) {
    FakeOptions fake;
    fake.path = place.path();
    daemon = std::make_unique<FakeDaemon>(fake);
    options.socket_path = place.path();
    options.lanes = 4;
    options.wait = wait;
    client.emplace(Client::connect(options).value());
  }
  SocketPlace place;
  std::unique_ptr<FakeDaemon> daemon;
  ClientOptions options;
  std::optional<Client> client;
};

bool readable(int fd, int timeout_ms) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

TEST_CASE("callbacks run in poll() and wait(), once, with the ticket") {
  for (const simm::WaitMode wait :
       {simm::WaitMode::spin, simm::WaitMode::adaptive, simm::WaitMode::event}) {
    CAPTURE(static_cast<int>(wait));
    World world(wait);
    simm::Region region = world.client->allocate_region(4096).value();
    const Item item{"k", View(region, 0, 100), 0, 0};
    PageResult result;
    std::vector<Completed> seen;
    const auto me = std::this_thread::get_id();
    const auto ticket = world.client->put_async({&item, 1}, {&result, 1}, {}, [&](Completed c) {
      CHECK(std::this_thread::get_id() == me);
      seen.push_back(c);
    });
    REQUIRE(ticket.has_value());
    CHECK(world.client->pending() == 1);
    for (int i = 0; i < 1000 && seen.empty(); ++i) {
      world.client->wait(100);
      world.client->poll();
    }
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].ticket == *ticket);
    CHECK(seen[0].status == Status::ok);
    CHECK(result.ok());
    CHECK(world.client->pending() == 0);
    CHECK(world.client->poll() == 0);
  }
}

TEST_CASE("wait() calls the callbacks of what is done, without a poll()") {
  for (const simm::WaitMode wait :
       {simm::WaitMode::spin, simm::WaitMode::adaptive, simm::WaitMode::event}) {
    CAPTURE(static_cast<int>(wait));
    World world(wait);
    const std::string_view key = "absent";
    PageResult results[2];
    int called = 0;
    REQUIRE(world.client
                ->exists_async({&key, 1}, {&results[0], 1}, {}, [&](const Completed&) { ++called; })
                .has_value());
    for (int i = 0; i < 1000 && called == 0; ++i) world.client->wait(100);
    CHECK(called == 1);
    CHECK(world.client->pending() == 0);
    // One without a callback stays for drain().
    REQUIRE(world.client->exists_async({&key, 1}, {&results[1], 1}).has_value());
    for (int i = 0; i < 3; ++i) world.client->wait(1000);
    CHECK(world.client->pending() == 1);
    std::vector<Completed> out(2);
    CHECK(world.client->drain(out) == 1);
  }
}

// Starts batches with that callback and waits until all of them are done, not called back.
void start_all(World& world, std::vector<PageResult>& results, const Client::Callback& callback) {
  const std::string_view key = "absent";
  for (PageResult& result : results) {
    const auto ticket = world.client->exists_async({&key, 1}, {&result, 1}, {}, callback);
    while (!world.client->has_completed(ticket.value())) std::this_thread::yield();
  }
}

TEST_CASE("a callback that throws costs the other batches nothing") {
  World world;
  const int fd = world.client->completion_fd();
  std::vector<PageResult> results(5);
  int called = 0;
  start_all(world, results, [&](const Completed&) {
    if (++called == 2) throw std::runtime_error("the program's");
  });
  CHECK_THROWS_AS(world.client->poll(), std::runtime_error);
  CHECK(called == 2);
  CHECK(world.client->pending() == 3);
  CHECK(readable(fd, 0));
  CHECK(world.client->poll() == 3);
  CHECK(called == 5);
  CHECK(world.client->pending() == 0);
  CHECK_FALSE(readable(fd, 0));
  called = 0;
  start_all(world, results, [&](const Completed&) {
    if (++called == 1) throw std::runtime_error("the program's");
  });
  CHECK_THROWS_AS(world.client->wait(1000), std::runtime_error);
  world.client.reset();  // waits for no batch that is done
  CHECK(called == 1);
}

TEST_CASE("a callback may close its Client: later callbacks are not called") {
  for (const bool by_wait : {false, true}) {
    CAPTURE(by_wait);
    World world;
    std::vector<PageResult> results(3);
    int called = 0;
    start_all(world, results, [&](const Completed&) {
      ++called;
      world.client.reset();
    });
    if (by_wait) {
      world.client->wait(1000);
    } else {
      CHECK(world.client->poll() == 1);
    }
    CHECK(called == 1);
    CHECK_FALSE(world.client.has_value());
  }
}

TEST_CASE("drain hands out completions without callback, a few at a time") {
  World world;
  const std::string_view key = "absent";
  std::vector<PageResult> results(10);
  std::set<std::uint64_t> tickets;
  for (PageResult& result : results) {
    tickets.insert(world.client->exists_async({&key, 1}, {&result, 1}).value());
  }
  CHECK(tickets.size() == 10);
  std::vector<Completed> out(3);
  while (world.client->pending() != 0) {
    world.client->wait(1000);
    const std::size_t got = world.client->drain(out);
    for (std::size_t i = 0; i < got; ++i) CHECK(tickets.erase(out[i].ticket) == 1);
  }
  CHECK(tickets.empty());
  for (const PageResult& result : results) CHECK(result.status == Status::not_found);
}

TEST_CASE("has_completed says that a batch's memory is free before anybody drains") {
  World world(simm::WaitMode::event);
  const std::string_view key = "absent";
  PageResult result;
  const int fd = world.client->completion_fd();
  world.daemon->stop();
  const std::uint64_t ticket = world.client->exists_async({&key, 1}, {&result, 1}).value();
  REQUIRE(world.daemon->wait_until_holding(1));
  CHECK_FALSE(world.client->has_completed(ticket));
  world.daemon->go_on();
  while (!world.client->has_completed(ticket)) std::this_thread::yield();
  CHECK_FALSE(world.client->has_completed(ticket + 1));
  CHECK(result.status == Status::not_found);
  CHECK(world.client->pending() == 1);
  CHECK(readable(fd, 5000));  // whoever drains is still told
  std::vector<Completed> out(3);
  CHECK(world.client->drain(out) == 1);
  CHECK(out[0].ticket == ticket);
  CHECK_FALSE(world.client->has_completed(ticket));
}

TEST_CASE("the descriptor is readable when something is done, and quiet otherwise") {
  World world(simm::WaitMode::event);
  const int fd = world.client->completion_fd();
  REQUIRE(fd >= 0);
  CHECK(world.client->completion_fd() == fd);
  CHECK_FALSE(readable(fd, 0));
  const std::string_view key = "absent";
  PageResult result;
  std::vector<Completed> out(4);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    world.daemon->stop();
    REQUIRE(world.client->exists_async({&key, 1}, {&result, 1}).has_value());
    if (round < 3) CHECK_FALSE(readable(fd, 20));
    world.daemon->go_on();
    std::size_t got = 0;
    while (got == 0) {
      REQUIRE(readable(fd, 5000));  // the wake must never be lost
      got = world.client->drain(out);
    }
    CHECK(got == 1);
    CHECK_FALSE(readable(fd, 0));
  }
  // What stays behind after a short drain keeps it readable.
  PageResult more[3];
  for (PageResult& r : more) REQUIRE(world.client->exists_async({&key, 1}, {&r, 1}).has_value());
  std::size_t taken = 0;
  while (taken < 3) {
    REQUIRE(readable(fd, 5000));
    taken += world.client->drain(std::span(out).first(1));
  }
  CHECK(taken == 3);
}

TEST_CASE("batches of any length and hundreds at once, staged and shared, all bytes verified") {
  World world;
  simm::Region shared = world.client->allocate_region(8 << 20).value();
  std::vector<std::byte> private_memory(8 << 20);
  simm::Region staged =
      world.client->register_region(private_memory.data(), private_memory.size()).value();
  REQUIRE(staged.kind() == simm::RegionKind::staged);
  for (simm::Region* region : {&shared, &staged}) {
    struct Batch {
      std::vector<std::string> keys;
      std::vector<Item> items;
      std::vector<PageResult> results;
    };
    std::vector<Batch> batches(150);
    std::size_t next = 0;
    for (std::size_t b = 0; b < batches.size(); ++b) {
      const std::size_t pages = b % 50 == 0 ? 1500 : b % 7;
      for (std::size_t i = 0; i < pages; ++i) {
        batches[b].keys.push_back("b" + std::to_string(b) + "-" + std::to_string(i));
      }
      for (const std::string& key : batches[b].keys) {
        const std::uint64_t at = next++ * 800 % (7 << 20);
        std::memset(region->data() + at, static_cast<int>(next), 777);
        batches[b].items.push_back({key, View(*region, at, 777), 0, 0});
      }
      batches[b].results.resize(pages);
    }
    std::size_t done = 0;
    const auto count = [&](const Completed& completed) {
      CHECK(completed.status == Status::ok);
      ++done;
    };
    for (Batch& batch : batches) {
      REQUIRE(world.client->put_async(batch.items, batch.results, {}, count).has_value());
    }
    while (done < batches.size()) {
      world.client->wait(1000);
      world.client->poll();
    }
    std::memset(region->data(), 0, region->size());
    done = 0;
    for (Batch& batch : batches) {
      for (const PageResult& result : batch.results) REQUIRE(result.ok());
      REQUIRE(world.client->get_async(batch.items, batch.results, {}, count).has_value());
    }
    while (done < batches.size()) {
      world.client->wait(1000);
      world.client->poll();
    }
    next = 0;
    for (const Batch& batch : batches) {
      for (std::size_t i = 0; i < batch.items.size(); ++i) {
        ++next;
        REQUIRE(batch.results[i].bytes == 777);
        const std::byte* const at = region->data() + batch.items[i].view.offset();
        REQUIRE(at[0] == static_cast<std::byte>(next));
        REQUIRE(std::memcmp(at, at + 1, 776) == 0);
      }
    }
    std::vector<std::string_view> names(batches[0].keys.begin(), batches[0].keys.end());
    REQUIRE(world.client->remove_async(names, batches[0].results, {}, count).has_value());
    while (world.client->pending() != 0) {
      world.client->wait(1000);
      world.client->poll();
    }
    world.daemon->store()->clear();
  }
}

TEST_CASE("a wait() that does not sleep makes no descriptors, and asks for no bell") {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  World world(simm::WaitMode::spin);
  const std::string_view key = "k";
  std::vector<Completed> out(1);
  const auto before = descriptors();
  for (int i = 0; i < 10; ++i) {
    PageResult result;
    REQUIRE(world.client->exists_async({&key, 1}, {&result, 1}).has_value());
    world.client->wait(60'000);
    CHECK(world.client->drain(out) == 1);
  }
  CHECK(descriptors() == before);
  // One that is asked for tells of what is done already.
  PageResult result;
  REQUIRE(world.client->exists_async({&key, 1}, {&result, 1}).has_value());
  world.client->wait(60'000);
  const int fd = world.client->completion_fd();
  CHECK(readable(fd, 0));
  CHECK(world.client->drain(out) == 1);
  CHECK_FALSE(readable(fd, 0));
}

TEST_CASE("two Clients have completions of their own") {
  World world;
  Client second = Client::connect(world.options).value();
  const std::string_view key = "k";
  PageResult results[2];
  const int fds[2] = {world.client->completion_fd(), second.completion_fd()};
  REQUIRE(world.client->exists_async({&key, 1}, {&results[0], 1}).has_value());
  REQUIRE(second.exists_async({&key, 1}, {&results[1], 1}).has_value());
  std::vector<Completed> out(4);
  std::size_t got = 0;
  while (got == 0) {
    REQUIRE(readable(fds[0], 5000));
    got = world.client->drain(out);
  }
  CHECK(got == 1);
  CHECK(second.pending() == 1);
  std::size_t other = 0;
  while (other == 0) {
    REQUIRE(readable(fds[1], 5000));
    other = second.drain(out);
  }
  CHECK(other == 1);
}

TEST_CASE("wait() ends when another thread takes the last batch") {
  World world(simm::WaitMode::event);
  constexpr std::uint32_t kLongMs = 120'000;
  const std::string_view key = "absent";
  for (int round = 0; round < 300; ++round) {
    const auto start = std::chrono::steady_clock::now();
    world.daemon->stop();
    PageResult result;
    CallOptions patient;
    patient.timeout_ms = 2 * kLongMs;
    REQUIRE(world.client->exists_async({&key, 1}, {&result, 1}, patient).has_value());
    REQUIRE(world.daemon->wait_until_holding(1));
    std::atomic<bool> begun{false};
    std::thread sleeper([&] {
      begun = true;
      world.client->wait(kLongMs);
    });
    while (!begun) std::this_thread::yield();
    world.daemon->go_on();
    std::vector<Completed> out(1);
    while (world.client->drain(out) == 0) {
    }
    sleeper.join();
    CHECK(world.client->pending() == 0);
    // Who was forgotten slept for so long.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(kLongMs));
  }
}

TEST_CASE("starting checks its arguments, a callback may start the next batch") {
  World world;
  const std::string_view keys[2] = {"a", "b"};
  PageResult results[2];
  CHECK(world.client->exists_async(keys, {results, 1}).status() == Status::invalid_argument);
  int rounds = 0;
  simm::Client::Callback again = [&](const Completed&) {
    if (++rounds < 5) REQUIRE(world.client->exists_async(keys, results, {}, again).has_value());
  };
  REQUIRE(world.client->exists_async(keys, results, {}, again).has_value());
  while (world.client->pending() != 0) {
    world.client->wait(1000);
    world.client->poll();
  }
  CHECK(rounds == 5);
  const auto empty = world.client->exists_async({}, {});
  REQUIRE(empty.has_value());
  std::vector<Completed> out(1);
  CHECK(world.client->drain(out) == 1);
}

TEST_CASE("batches that find no room time out at their deadline; closing waits for the rest") {
  World world;
  world.daemon->stop();
  const std::string_view key = "k";
  std::vector<PageResult> results(300);
  CallOptions patient;
  patient.timeout_ms = 4000;
  for (std::size_t i = 0; i < 200; ++i) {
    REQUIRE(world.client->exists_async({&key, 1}, {&results[i], 1}, patient).has_value());
  }
  CallOptions hasty;
  hasty.timeout_ms = 30;
  PageResult late;
  const auto ticket = world.client->exists_async({&key, 1}, {&late, 1}, hasty).value();
  std::vector<Completed> out(1);
  const int fd = world.client->completion_fd();
  std::size_t got = 0;
  for (int i = 0; i < 100 && got == 0; ++i) {
    REQUIRE(readable(fd, 5000));
    got = world.client->drain(out);
  }
  REQUIRE(got == 1);
  CHECK(out[0].ticket == ticket);
  CHECK(out[0].status == Status::timeout);
  CHECK(late.status == Status::timeout);
  world.daemon->go_on();
  world.client.reset();
  for (std::size_t i = 0; i < 200; ++i) CHECK(results[i].status == Status::not_found);
}

}  // namespace async_test
