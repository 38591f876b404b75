// A daemon that dies, comes back, stops, poisons; a process that forks.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "fault_world.h"
#include "tally.h"

namespace fault_test {

// ASan's allocator has a lock that it does not take around fork(). A thread that holds it at that
// moment is not in the child, which then waits for it for ever.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kForkMayHang = true;
#else
constexpr bool kForkMayHang = false;
#endif

// Runs `body` in a forked child and says whether it returned true.
// The daemon is a thread of the parent, which gets little time between threads that do not rest:
// a child waits long for its session.
template <typename Body>
bool child_succeeds(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  const bool succeeds = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!succeeds) MESSAGE("the child ended with ", status);  // 14: its alarm, as it hung
  return succeeds;
}

TEST_CASE("daemon dead: calls fail at once, come back with all regions and namespaces") {
  World world(true);
  Region shared = world.client->allocate_region(8192).value();
  std::vector<std::byte> memory(8192);
  Region adopted = world.client->register_region(memory.data(), memory.size()).value();
  CallOptions spaced;
  spaced.name_space = world.client->open_namespace("space").value();
  REQUIRE(world.client->put("k", View(shared, 0, 100), spaced).ok());
  world.die();
  CHECK(world.client->get("k", View(shared, 0, 100), spaced).status == Status::unreachable);
  CHECK_FALSE(world.client->attached());
  // A thousand calls: each may look for a socket, none waits.
  const auto start = Clock::now();
  for (int i = 0; i < 1000; ++i) {
    CHECK(world.client->exists("k").status == Status::unreachable);
  }
  CHECK(Clock::now() - start < std::chrono::seconds(10));
  CHECK(world.client->allocate_region(4096).status() == Status::unreachable);
  std::vector<std::byte> late(8192);
  Region registered = world.client->register_region(late.data(), late.size()).value();
  CHECK(registered.kind() == RegionKind::staged);
  CHECK(registered.kind_reason().find("away") != std::string::npos);
  simm::RegisterOptions exact;
  exact.kind = RegionKind::adopted;
  std::vector<std::byte> other(8192);
  CHECK(world.client->register_region(other.data(), other.size(), exact).status() ==
        Status::unreachable);  // what has to be so can not come later

  world.come_back();
  REQUIRE(world.wait_until_back());
  CHECK(world.daemon->counts().regions == 3);
  CHECK(registered.kind() == RegionKind::adopted);
  CHECK(world.client->get("k", View(late.data(), 100), spaced).ok());
  CHECK(world.daemon->namespaces() == std::vector<std::string>{"space"});
  CHECK(world.client->get("k", View(shared, 4096, 100), spaced).ok());
  CHECK(std::memcmp(shared.data(), shared.data() + 4096, 100) == 0);
  CHECK(world.client->get("k", View(memory.data(), 100), spaced).ok());
  world.store->order();
  CHECK(adopted.kind() == RegionKind::adopted);
  CHECK(world.client->stats().attaches == 2);
  // A region that the new daemon can not take up becomes staged, and goes on working.
  world.die();
  world.fake.adopts = false;
  world.come_back();
  REQUIRE(world.wait_until_back());
  CHECK(adopted.kind() == RegionKind::staged);
  CHECK(world.client->get("k", View(memory.data(), 100), spaced).ok());
}

TEST_CASE("a namespace that the daemon refused is not asked for again by itself") {
  World world;
  world.die();
  world.fake.namespaces_max = 1;
  world.come_back();
  REQUIRE(world.wait_until_back());
  CallOptions spaced;
  spaced.name_space = world.client->open_namespace("one").value();
  const auto refused = world.client->open_namespace("two");
  CHECK(refused.status() == Status::out_of_memory);
  CHECK(refused.error().context.find("'two'") != std::string::npos);
  world.die();
  world.come_back();
  REQUIRE(world.wait_until_back());
  CHECK(world.daemon->namespaces() == std::vector<std::string>{"one"});
  CHECK(world.client->exists("k", spaced).status == Status::not_found);
  // By the program it is asked for again, and opened when there is room.
  world.die();
  world.fake.namespaces_max = 2;
  world.come_back();
  REQUIRE(world.wait_until_back());
  spaced.name_space = world.client->open_namespace("two").value();
  CHECK(world.client->exists("k", spaced).status == Status::not_found);
}

TEST_CASE("without reattach, calls stay unreachable") {
  World world;
  ClientOptions options = world.options;
  options.reattach = false;
  Client stubborn = Client::connect(options).value();
  world.die();
  CHECK(stubborn.exists("k").status == Status::unreachable);
  world.come_back();
  for (int i = 0; i < 30; ++i) {
    CHECK(stubborn.exists("k").status == Status::unreachable);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(world.wait_until_back());  // the other Client of the process does it
  CHECK(stubborn.exists("k").status == Status::not_found);
}

TEST_CASE("a Client that finds no daemon costs the others nothing") {
  World world;
  Region region = world.client->allocate_region(8192).value();
  REQUIRE(world.client->put("k", View(region, 0, 100)).ok());
  SUBCASE("the daemon has gone") {
    world.die();
    CHECK(Client::connect(world.options).status() == Status::unreachable);
    world.come_back();
  }
  SUBCASE("the daemon does not answer") {
    world.die();
    world.fake.silent = true;
    world.come_back();
    ClientOptions hasty = world.options;
    hasty.connect_timeout_ms = 50;
    CHECK(Client::connect(hasty).status() == Status::timeout);
    world.die();
    world.fake.silent = false;
    world.come_back();
  }
  REQUIRE(world.wait_until_back());
  CHECK(world.client->get("k", View(region, 4096, 100)).ok());
  CHECK(world.client->stats().attaches == 2);
}

TEST_CASE("daemon dies with calls in flight: they end unreachable, well before their deadline") {
  for (const simm::WaitMode wait :
       {simm::WaitMode::spin, simm::WaitMode::adaptive, simm::WaitMode::event}) {
    CAPTURE(static_cast<int>(wait));
    World world;
    world.client.reset();
    world.options.wait = wait;
    world.client.emplace(Client::connect(world.options).value());
    Region region = world.client->allocate_region(1 << 20).value();
    world.daemon->stop();
    std::vector<std::thread> callers;
    for (std::size_t t = 0; t < 2; ++t) {
      callers.emplace_back([&, t] {
        const PageResult result =
            world.client->put("k", View(region, t * 4096, 4096), within(20'000));
        CHECK(result.status == Status::unreachable);
      });
    }
    const std::string_view key = "k";
    PageResult late;
    std::vector<simm::Completed> out(1);
    REQUIRE(world.client->exists_async({&key, 1}, {&late, 1}, within(20'000)).has_value());
    REQUIRE(world.daemon->wait_until_holding(3));
    const auto start = Clock::now();
    world.die();
    for (std::thread& caller : callers) caller.join();
    const int fd = world.client->completion_fd();
    std::size_t got = 0;
    while (got == 0) {
      pollfd entry{fd, POLLIN, 0};
      REQUIRE(::poll(&entry, 1, 5000) == 1);
      got = world.client->drain(out);
    }
    CHECK(out[0].status == Status::unreachable);
    CHECK(late.status == Status::unreachable);
    CHECK(Clock::now() - start < std::chrono::seconds(10));  // half of what they had
    CHECK(region.deregister().has_value());
  }
}

// Four keys, the second and the fourth of them late.
struct LateWorld {
  explicit LateWorld(const FakeOptions& changes = {}) : fake(changes) {
    fake.path = place.path();
    for (const char* key : kKeys) store->objects["/" + std::string(key)].assign(100, 'v');
    daemon.emplace(fake, store);
    ClientOptions options;
    options.socket_path = place.path();
    client.emplace(Client::connect(options).value());
    region = client->allocate_region(4 * 4096).value();
    for (std::size_t i = 0; i < 4; ++i) {
      items.push_back({kKeys[i], View(region, i * 4096, 200), 0, 0});
    }
  }
  static constexpr const char* kKeys[] = {"a", "late/b", "c", "late/d"};
  SocketPlace place;
  FakeOptions fake;
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  std::optional<FakeDaemon> daemon;
  std::optional<Client> client;
  Region region;
  std::vector<Item> items;
  std::vector<PageResult> results = std::vector<PageResult>(4);
};

TEST_CASE("pages that came too late cost no other page its result") {
  FakeOptions fake;
  fake.late = "late/";
  LateWorld world(fake);
  const auto check = [&] {
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(world.results[i].status == (i % 2 == 0 ? Status::ok : Status::timeout));
      CHECK(world.results[i].bytes == (i % 2 == 0 ? 100 : 0));
    }
  };
  CHECK(world.client->get(world.items, world.results) == Status::ok);
  check();
  CHECK(world.client->stats().timeouts == 2);
  world.results.assign(4, {});
  REQUIRE(world.client->get_async(world.items, world.results).has_value());
  std::vector<simm::Completed> out(1);
  while (world.client->drain(out) == 0) world.client->wait(100);
  CHECK(out[0].status == Status::ok);
  check();
}

TEST_CASE("an older daemon says that a submission was late: none of its pages counts") {
  FakeOptions fake;
  fake.late = "late/";
  fake.is_older = true;
  LateWorld world(fake);
  CHECK(world.client->get(world.items, world.results) == Status::timeout);
  for (const PageResult& result : world.results) CHECK(result.status == Status::timeout);
}

TEST_CASE("results of pages without a completion are not believed") {
  FakeOptions fake;
  fake.loses_completions = true;
  LateWorld world(fake);
  Status expected = Status::timeout;
  std::thread killer;
  SUBCASE("the daemon stays and does not answer") {}
  SUBCASE("the daemon dies") {
    expected = Status::unreachable;
    killer = std::thread([&] {
      while (world.daemon->counts().submissions == 0) std::this_thread::yield();
      CHECK(world.daemon->wait_until_idle());
      world.daemon.reset();
    });
  }
  const bool dies = killer.joinable();
  CHECK(world.client->get(world.items, world.results, within(dies ? 20'000 : 100)) == expected);
  if (dies) killer.join();
  for (const PageResult& result : world.results) {
    CHECK(result.status == expected);
    CHECK(result.bytes == 0);
  }
}

TEST_CASE("poisoned sessions end their calls, the next call attaches anew") {
  World world;
  Region region = world.client->allocate_region(8192).value();
  REQUIRE(world.client->put("k", View(region, 0, 100)).ok());
  world.daemon->stop();
  std::thread caller([&] {
    const Status status = world.client->exists("k", within(20'000)).status;
    CHECK((status == Status::poisoned || status == Status::unreachable));
  });
  REQUIRE(world.daemon->wait_until_holding(1));
  world.daemon->poison();
  caller.join();
  world.daemon->go_on();
  REQUIRE(world.wait_until_back());
  CHECK(world.client->get("k", View(region, 0, 100)).ok());
}

TEST_CASE("daemons come and go under load: every byte that is answered is right") {
  World world;
  Region region = world.client->allocate_region(4 * 64 * 1024).value();
  std::atomic<bool> done{false};
  Tally tally;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::byte* const mine = region.data() + t * 64 * 1024;
      for (std::uint64_t i = 0; !done; ++i) {
        const std::string key = std::to_string(t) + "/" + std::to_string(i % 50);
        const std::size_t bytes = 1000 + i % 50 * 13;
        std::memset(mine, static_cast<int>(i % 50 + t), bytes);
        (void)world.client->put(key, View(mine, bytes));
        const PageResult got = world.client->get(key, View(mine + 32 * 1024, 4096));
        if (got.ok()) {
          CHECK(got.bytes == bytes);
          CHECK(std::memcmp(mine, mine + 32 * 1024, bytes) == 0);
        }
        tally.note(got.ok());
      }
    });
  }
  for (int round = 0; round < 5; ++round) {
    CHECK(tally.wait_for_hits(10));
    world.die();
    CHECK(tally.wait_for_failures(3));
    world.come_back();
  }
  CHECK(tally.wait_for_hits(10));
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("a forked child has no session of its parent and attaches anew at its first call") {
  World world;
  Region region = world.client->allocate_region(16384).value();
  std::memset(region.data(), 'p', 4096);
  REQUIRE(world.client->put("parent", View(region, 0, 4096)).ok());
  std::vector<std::byte> memory(8192);
  Region staged = world.client->register_region(memory.data(), memory.size()).value();
  REQUIRE(world.client->put("staged", View(staged, 0, 4096)).ok());
  CHECK(child_succeeds([&] {
    if (world.client->attached()) return false;
    // Memory of a shared region is the parent's too.
    if (!world.client->get("parent", View(region, 4096, 4096)).ok()) return false;
    if (!world.client->get("parent", View(staged, 4096, 4096)).ok()) return false;
    if (memory[4096] != std::byte{'p'}) return false;
    Client second = Client::connect(world.options).value();
    return second.put("child", View(region, 0, 100)).ok() && world.client->attached();
  }));
  CHECK(std::memcmp(region.data(), region.data() + 4096, 4096) == 0);
  CHECK(world.client->attached());
  CHECK(world.client->exists("child").ok());
  CHECK(world.client->stats().attaches == 1);
  CHECK(eventually([&] { return world.daemon->counts().sessions == 1; }));
}

TEST_CASE("the death of the parent is seen while its child lives on, and the other way round") {
  World world;
  const std::uint32_t before = world.daemon->counts().sessions;
  CHECK(child_succeeds([&] {
    if (world.client->ping() != Status::ok) return false;
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::pause();
      ::_exit(0);
    }
    // Our session must end with us, although the grandchild still has every inherited descriptor.
    ::alarm(20);
    std::string pid = std::to_string(grandchild);
    Region region = world.client->allocate_region(4096).value();
    std::memcpy(region.data(), pid.data(), pid.size());
    return world.client->put("grandchild", View(region, 0, pid.size())).ok();
  }));
  CHECK(eventually([&] { return world.daemon->counts().sessions == before; }));
  ::kill(std::stoi(world.store->value("/grandchild")), SIGKILL);
}

TEST_CASE("fork in the middle of other threads' calls and batches" * doctest::skip(kForkMayHang)) {
  World world;
  Region region = world.client->allocate_region(1 << 20).value();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      const std::string_view key = "k";
      while (!done) {
        CHECK(world.client->put("t" + std::to_string(t), View(region, t * 4096, 4096)).ok());
        PageResult result;
        std::atomic<bool> called{false};
        CHECK(world.client
                  ->exists_async({&key, 1}, {&result, 1}, {},
                                 [&](const simm::Completed&) { called = true; })
                  .has_value());
        while (!called) {
          world.client->wait(10);
          world.client->poll();
        }
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    CHECK(child_succeeds([&] {
      ::alarm(20);
      return world.client->pending() == 0 &&
             world.client->put("child", View(region, 64 * 4096, 4096), within(kLongMs)).ok();
    }));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("fork while other threads ask for a region's reason" * doctest::skip(kForkMayHang)) {
  World world;
  Region region = world.client->allocate_region(8192).value();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!done) CHECK_FALSE(region.kind_reason().empty());
    });
  }
  for (int i = 0; i < 50; ++i) {
    CHECK(child_succeeds([&] {
      ::alarm(20);
      return !region.kind_reason().empty() &&
             world.client->put("k", View(region, 0, 100), within(kLongMs)).ok();
    }));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace fault_test
