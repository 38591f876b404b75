// A daemon that lives and does not answer: what its callers wait for, and what the end of one call
// costs the others.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "fault_world.h"

namespace fault_test {

TEST_CASE("stopped daemon, shared region: the call ends, late writes and reads touch nothing") {
  World world;
  Region region = world.client->allocate_region(64 * 4096).value();
  std::memset(region.data(), 'v', 3000);
  REQUIRE(world.client->put("value", View(region, 0, 3000)).ok());
  std::memset(region.data(), '.', region.size());
  std::memset(region.data() + 20 * 4096, 'p', 5000);
  world.daemon->stop();
  // Slices in the middle of pages, with neighbours that must survive.
  const auto start = Clock::now();
  std::thread putter([&] {
    CHECK(world.client->put("late-put", View(region, 20 * 4096, 5000), within(200)).status ==
          Status::timeout);
  });
  CHECK(world.client->get("value", View(region, 10 * 4096 + 123, 3000), within(200)).status ==
        Status::timeout);
  putter.join();
  CHECK(Clock::now() - start < std::chrono::seconds(15));
  CHECK(region.kind() == RegionKind::shared);
  // The page of the get, and the two that the put's 5000 bytes lie in.
  CHECK(region.kind_reason().find("but 12288 bytes are copied") != std::string::npos);
  CHECK(world.client->stats().taken_back == 2);
  CHECK(region.data()[10 * 4096 + 122] == std::byte{'.'});
  // The caller uses its pages again, as engines do; the page of the get it leaves alone, so that it
  // would show what the daemon still writes.
  constexpr std::size_t kGetPage = 10 * 4096;
  std::memset(region.data(), 'C', kGetPage);
  std::memset(region.data() + kGetPage + 4096, 'C', region.size() - kGetPage - 4096);
  world.daemon->go_on();
  // It may not have taken the put out of its ring yet, and is idle then, too.
  REQUIRE(eventually([&] { return world.store->value("/late-put") != "(none)"; }));
  REQUIRE(world.daemon->wait_until_idle());
  for (std::size_t i = 0; i < region.size(); ++i) {
    const bool of_get = i / 4096 == kGetPage / 4096;
    REQUIRE(region.data()[i] == (of_get ? std::byte{'.'} : std::byte{'C'}));
  }
  CHECK(world.store->value("/late-put") == std::string(5000, 'p'));  // late, and whole
  REQUIRE(world.wait_until_back());
  // Into a page that was taken back, and into one that was not.
  for (const std::size_t place : {kGetPage + 77, std::size_t{77}}) {
    CAPTURE(place);
    const std::byte before = region.data()[place - 1];
    const std::uint64_t staged = world.client->stats().bytes_staged;
    REQUIRE(world.client->get("value", View(region, place, 3000)).ok());
    CHECK(std::memcmp(region.data() + place, std::string(3000, 'v').data(), 3000) == 0);
    CHECK(region.data()[place - 1] == before);
    CHECK(region.data()[place + 3000] == before);
    CHECK(world.client->stats().bytes_staged == staged + (place > kGetPage ? 3000 : 0));
  }
  // What a put reads there is what the caller has written since.
  std::memset(region.data() + kGetPage, 'n', 100);
  REQUIRE(world.client->put("new", View(region, kGetPage, 100)).ok());
  CHECK(world.store->value("/new") == std::string(100, 'n'));
}

TEST_CASE("stopped daemon, staged region: the call ends, its staging memory is given up") {
  World world;
  std::vector<std::byte> memory(64 * 1024);
  Region region = world.client->register_region(memory.data(), memory.size()).value();
  std::memset(memory.data(), 'v', 3000);
  REQUIRE(world.client->put("value", View(region, 0, 3000)).ok());
  world.daemon->stop();
  CHECK(world.client->get("value", View(region, 4096, 3000), within(100)).status ==
        Status::timeout);
  std::memset(memory.data(), 'C', memory.size());
  world.daemon->go_on();
  REQUIRE(world.daemon->wait_until_idle());
  for (const std::byte byte : memory) REQUIRE(byte == std::byte{'C'});
  REQUIRE(world.wait_until_back());
  CHECK(world.client->get("value", View(region, 0, 3000)).ok());
}

TEST_CASE("a daemon that tells of progress is waited for, one that is stopped is not") {
  constexpr std::uint32_t kPatienceMs = 1000;
  constexpr std::chrono::milliseconds kPatience(kPatienceMs);
  World world(false, true);
  ClientOptions options = world.options;
  options.sync_timeout_ms = options.async_timeout_ms = kPatienceMs;
  Client client = Client::connect(options).value();
  Region region = client.allocate_region(2 * 4096).value();
  REQUIRE(client.put("k", View(region, 0, 100)).ok());
  const Item item{"k", View(region, 4096, 100), 0, 0};
  PageResult result;
  std::vector<simm::Completed> out(1);
  const auto get = [&](bool is_async) {
    if (!is_async) return client.get({&item, 1}, {&result, 1});
    REQUIRE(client.get_async({&item, 1}, {&result, 1}).has_value());
    while (client.drain(out) == 0) client.wait(100);
    return out[0].status;
  };
  for (const bool is_async : {false, true}) {
    CAPTURE(is_async);
    world.daemon->be_slow();
    const auto began = Clock::now();
    std::thread waker([&] {
      // More than the patience and all that is added to it.
      while (Clock::now() < began + 2 * kPatience) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      world.daemon->go_on();
    });
    CHECK(get(is_async) == Status::ok);
    waker.join();
    CHECK(result.ok());
    CHECK(Clock::now() >= began + 2 * kPatience);
  }
  world.daemon->stop();
  const auto began = Clock::now();
  CHECK(get(false) == Status::timeout);
  CHECK(result.status == Status::timeout);
  CHECK(Clock::now() - began < 5 * kPatience);  // not the latest deadline, of ten
  CHECK(client.stats().taken_back == 1);
  world.daemon->go_on();
}

TEST_CASE("stopped daemon, memory that can not be taken back: the call waits for the fence") {
  World world;
  Region region;
  std::vector<std::byte> memory(8192);
  SUBCASE("by its owner's wish") {
    simm::AllocateOptions options;
    options.stopped_daemon = simm::StoppedDaemon::wait;
    region = world.client->allocate_region(memory.size(), options).value();
  }
  SUBCASE("foreign") {
    world.die();
    world.fake.does_foreign = true;
    world.come_back();
    REQUIRE(world.wait_until_back());
    simm::RegisterOptions options;
    options.kind = RegionKind::foreign;
    region = world.client->register_region(memory.data(), memory.size(), options).value();
  }
  const RegionKind kind = region.kind();
  std::memset(region.data(), 'v', 3000);
  world.store->order();
  REQUIRE(world.client->put("value", View(region, 0, 3000)).ok());
  world.daemon->stop();
  std::atomic<bool> ended{false};
  std::thread caller([&] {
    const PageResult result = world.client->get("value", View(region, 4096, 3000), within(50));
    // The daemon ran on and did it, or saw that it was given up and closed.
    CHECK((result.status == Status::ok || result.status == Status::timeout));
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK_FALSE(ended);
  world.daemon->go_on();
  caller.join();
  CHECK(region.kind() == kind);
  REQUIRE(world.wait_until_back());
  CHECK(world.client->get("value", View(region, 0, 3000)).ok());
  world.store->order();  // what the daemon wrote to the vector is before its end
}

TEST_CASE("stopped daemon, asynchronous batch: it completes by timer, without a thread") {
  World world;
  Region region = world.client->allocate_region(8192).value();
  world.daemon->stop();
  const Item item{"k", View(region, 0, 100), 0, 0};
  PageResult result;
  std::vector<simm::Completed> out(1);
  const int fd = world.client->completion_fd();
  REQUIRE(world.client->put_async({&item, 1}, {&result, 1}, within(100)).has_value());
  std::size_t got = 0;
  while (got == 0) {
    pollfd entry{fd, POLLIN, 0};
    REQUIRE(::poll(&entry, 1, 5000) == 1);
    got = world.client->drain(out);
  }
  CHECK(out[0].status == Status::timeout);
  CHECK(world.client->stats().taken_back == 1);
  world.daemon->go_on();
  REQUIRE(world.wait_until_back());
}

// One that pauses tells of progress here, so that no slowness of the test makes the pause an end.
TEST_CASE("a daemon that pauses: a call whose time is over ends alone") {
  World world(false, true);
  Region region = world.client->allocate_region(16 * 4096).value();
  std::memset(region.data(), 'v', 3000);
  REQUIRE(world.client->put("value", View(region, 0, 3000)).ok());
  std::memset(region.data(), '.', region.size());
  const auto place = [&](std::size_t page) { return View(region, page * 4096 + 123, 3000); };
  world.daemon->be_slow();
  std::thread patient([&] {
    CHECK(world.client->get("value", place(4), within(kLongMs)).ok());
    CHECK(world.client->exists("value", within(kLongMs)).ok());
  });
  REQUIRE(world.daemon->wait_until_holding(1));
  CHECK(world.client->get("value", place(2), within(20)).status == Status::timeout);
  CHECK(world.client->put("late", place(6), within(20)).status == Status::timeout);
  CHECK(world.client->exists("value", within(20)).status == Status::timeout);
  CHECK(world.client->ping(within(20)) == Status::timeout);
  const Item item{"value", place(8), 0, 0};
  PageResult result;
  std::vector<simm::Completed> out(1);
  REQUIRE(world.client->get_async({&item, 1}, {&result, 1}, within(20)).has_value());
  while (world.client->drain(out) == 0) world.client->wait(100);
  CHECK(out[0].status == Status::timeout);
  CHECK(result.status == Status::timeout);
  CHECK(world.client->attached());
  world.daemon->go_on();
  patient.join();
  REQUIRE(world.daemon->wait_until_idle());
  CHECK(world.client->stats().attaches == 1);
  CHECK(world.client->stats().taken_back == 3);
  CHECK(world.daemon->counts().hellos == 1);
  const auto is = [&](std::size_t page, char byte) {
    const std::string wanted(3000, byte);
    return std::memcmp(region.data() + page * 4096 + 123, wanted.data(), wanted.size()) == 0;
  };
  CHECK(is(4, 'v'));
  CHECK(is(2, '.'));  // what came late went nowhere
  CHECK(is(8, '.'));
  // All of it goes on in the same session, by the same lanes.
  REQUIRE(world.client->get_async({&item, 1}, {&result, 1}).has_value());
  while (world.client->drain(out) == 0) world.client->wait(100);
  CHECK(result.ok());
  CHECK(is(8, 'v'));
  for (int i = 0; i < 20; ++i) {
    REQUIRE(world.client->get("value", place(2)).ok());
    REQUIRE(is(2, 'v'));
    std::memset(region.data() + 2 * 4096 + 123, '.', 3000);
  }
  CHECK(world.client->stats().attaches == 1);
  CHECK(region.deregister().has_value());
}

TEST_CASE(
    "a daemon that pauses: calls that ended unanswered take the lane's room until it answers") {
  World world(false, true);
  world.client.reset();
  world.options.lanes = 2;
  world.options.async_lanes = 1;
  world.client.emplace(Client::connect(world.options).value());
  const std::uint64_t attaches = world.client->stats().attaches;
  std::vector<std::string> keys;
  for (int i = 0; i < 6000; ++i) keys.push_back("key/" + std::to_string(i));
  const std::vector<std::string_view> names(keys.begin(), keys.end());
  std::vector<PageResult> results(names.size());
  world.daemon->be_slow();
  CHECK(world.client->exists(names, results, within(20)) == Status::timeout);
  for (const PageResult& result : results) REQUIRE(result.status == Status::timeout);
  CHECK(world.client->exists("key/1", within(20)).status == Status::timeout);
  std::thread waits(
      [&] { CHECK(world.client->exists("key/1", within(kLongMs)).status == Status::not_found); });
  world.daemon->go_on();
  waits.join();
  CHECK(world.client->exists(names, results, within(kLongMs)) == Status::ok);
  for (const PageResult& result : results) REQUIRE(result.status == Status::not_found);
  CHECK(world.client->stats().attaches == attaches);
}

TEST_CASE("a daemon that stays silent is given up, and then every call ends at once") {
  World world;
  world.daemon->stop();
  const auto start = Clock::now();
  Status status = Status::timeout;
  while (status == Status::timeout) status = world.client->exists("key", within(20)).status;
  CHECK(status == Status::unreachable);
  CHECK_FALSE(world.client->attached());
  // The time of the first call, what is added to it, and the silence.
  CHECK(Clock::now() - start >= std::chrono::milliseconds(20 + 200 + 1000));
  world.daemon->go_on();
  REQUIRE(world.wait_until_back());
}

TEST_CASE("a daemon that answers all but one call for a second loses the session") {
  FakeOptions fake;
  SocketPlace place;
  fake.path = place.path();
  fake.loses_completions = true;
  FakeDaemon daemon(fake);
  ClientOptions options;
  options.socket_path = place.path();
  Client client = Client::connect(options).value();
  const auto start = Clock::now();
  while (client.attached() && Clock::now() - start < std::chrono::minutes(1)) {
    CHECK(client.exists("key", within(20)).status != Status::ok);
  }
  CHECK_FALSE(client.attached());
}

TEST_CASE("memory of two daemons: what one does not see any more, the other is not shown either") {
  World paused(false, true);
  World other;
  const int fd = ::memfd_create("pool", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  constexpr std::size_t kBytes = 4 * 4096;
  REQUIRE(::ftruncate(fd, kBytes) == 0);
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* const bytes = static_cast<char*>(memory);
  Region first = paused.client->register_fd(fd, 0, kBytes, memory).value();
  Region second = other.client->register_fd(fd, 0, kBytes, memory).value();
  std::memset(bytes, 'v', kBytes);
  REQUIRE(paused.client->put("value", View(first, 0, 4096)).ok());
  REQUIRE(other.client->put("value", View(second, 0, 4096)).ok());
  paused.daemon->be_slow();
  CHECK(paused.client->get("value", View(first, 4096, 4096), within(20)).status == Status::timeout);
  paused.daemon->go_on();
  std::memset(bytes, 'w', kBytes);
  CallOptions replace;
  replace.mode = simm::PutMode::replace;
  for (std::size_t page = 0; page < 4; ++page) {
    CAPTURE(page);
    REQUIRE(other.client->put("page", View(second, page * 4096, 4096), replace).ok());
    CHECK(other.store->value("/page") == std::string(4096, 'w'));
    REQUIRE(other.client->get("value", View(second, page * 4096, 4096)).ok());
    CHECK(std::string(bytes + page * 4096, 4096) == std::string(4096, 'v'));
    std::memset(bytes + page * 4096, 'w', 4096);
  }
  // The memory is one that no file's address shows as a whole.
  second = Region();
  CHECK(other.client->register_fd(fd, 0, kBytes, memory).status() == Status::invalid_argument);
  first = Region();
  REQUIRE(::munmap(memory, kBytes) == 0);
  REQUIRE(::mmap(memory, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == memory);
  Region anew = other.client->register_fd(fd, 0, kBytes, memory).value();
  const std::uint64_t staged = other.client->stats().bytes_staged;
  REQUIRE(other.client->get("value", View(anew, 4096, 4096)).ok());
  CHECK(other.client->stats().bytes_staged == staged);  // the daemon sees it again
  anew = Region();
  ::munmap(memory, kBytes);
  ::close(fd);
}

}  // namespace fault_test
