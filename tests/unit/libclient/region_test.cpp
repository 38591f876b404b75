// Regions: which kind is chosen and said, what is refused, staging, and the end of a region.
#include "simm/region.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "fake_daemon.h"
#include "simm/client.h"

namespace region_test {

using libclient_test::FakeDaemon;
using libclient_test::FakeOptions;
using libclient_test::SocketPlace;
using simm::Client;
using simm::ClientOptions;
using simm::Item;
using simm::PageResult;
using simm::Region;
using simm::RegionKind;
using simm::RegisterOptions;
using simm::Status;
using simm::View;

struct World {
  explicit World(FakeOptions fake = {}, std::uint64_t staging_bytes = 32ull << 20) {
    fake.path = place.path();
    daemon = std::make_unique<FakeDaemon>(fake);
    ClientOptions options;
    options.socket_path = place.path();
    options.lanes = 4;
    options.staging_bytes = staging_bytes;
    client.emplace(Client::connect(options).value());
  }
  SocketPlace place;
  std::unique_ptr<FakeDaemon> daemon;
  std::optional<Client> client;
};

void round_trip(World& world, std::byte* memory, std::size_t bytes, const std::string& key) {
  Client& client = *world.client;
  const std::size_t half = bytes / 2;
  std::iota(reinterpret_cast<unsigned char*>(memory),
            reinterpret_cast<unsigned char*>(memory) + half, static_cast<unsigned char>(key[0]));
  std::memset(memory + half, 0, half);
  world.daemon->store()->order();
  REQUIRE(client.put(key, View(memory, half)).ok());
  REQUIRE(client.get(key, View(memory + half, half)).ok());
  world.daemon->store()->order();
  CHECK(std::memcmp(memory, memory + half, half) == 0);
}

TEST_CASE("private memory is staged, a shared mapping adopted, and both say why") {
  {
    World world;
    std::vector<std::byte> memory(100'001);
    Region region = world.client->register_region(memory.data(), memory.size()).value();
    CHECK(region.kind() == RegionKind::staged);
    CHECK(region.kind_reason() == "staged: the memory is private");
    CHECK(region.data() == memory.data());
    CHECK(region.size() == memory.size());
    round_trip(world, memory.data(), memory.size(), "s");
    CHECK(world.client->stats().bytes_staged == 100'000);
  }
  FakeOptions adopting;
  adopting.adopts = true;
  World world(adopting);
  std::vector<std::byte> memory(100'000);
  Region region = world.client->register_region(memory.data(), memory.size()).value();
  CHECK(region.kind() == RegionKind::adopted);
  CHECK(region.kind_reason() == "adopted: a shared mapping");
  round_trip(world, memory.data(), memory.size(), "a");
  CHECK(world.client->stats().bytes_staged == 0);
}

TEST_CASE("a memory file that the daemon does not map is staged, and says why") {
  FakeOptions options;
  options.stages_files = true;
  World world(options);
  const int fd = ::memfd_create("mine", MFD_CLOEXEC);
  REQUIRE(::ftruncate(fd, 32 * 4096) == 0);
  Region region = world.client->register_fd(fd, 0, 32 * 4096).value();
  ::close(fd);
  CHECK(region.kind() == RegionKind::staged);
  CHECK(region.kind_reason() == "staged; not shared: its owner can punch holes");
  round_trip(world, region.data(), region.size(), "s");
  CHECK(world.client->stats().bytes_staged == 32 * 4096);
}

TEST_CASE("foreign only when it is allowed, and before staged") {
  FakeOptions able;
  able.does_foreign = true;
  World world(able);
  std::vector<std::byte> memory(4096);
  CHECK(world.client->register_region(memory.data(), 4096)->kind() == RegionKind::staged);
  RegisterOptions allow;
  allow.allow_foreign = true;
  Region region = world.client->register_region(memory.data(), 4096, allow).value();
  CHECK(region.kind() == RegionKind::foreign);
  round_trip(world, memory.data(), memory.size(), "f");

  World unable;
  Region staged = unable.client->register_region(memory.data(), 4096, allow).value();
  CHECK(staged.kind() == RegionKind::staged);
  CHECK(staged.kind_reason().find("unsupported") != std::string::npos);
}

TEST_CASE("a kind that was named is that one or an error") {
  World world;
  std::vector<std::byte> memory(4096);
  const auto with = [&](RegionKind kind) {
    RegisterOptions options;
    options.kind = kind;
    return world.client->register_region(memory.data(), memory.size(), options);
  };
  CHECK(with(RegionKind::gpu).status() == Status::invalid_argument);  // it is the host's
  CHECK(with(RegionKind::adopted).status() == Status::unsupported);
  CHECK(with(RegionKind::foreign).status() == Status::unsupported);
  CHECK(with(static_cast<RegionKind>(77)).status() == Status::invalid_argument);
  Region staged = with(RegionKind::staged).value();
  CHECK(staged.kind() == RegionKind::staged);
  CHECK(world.daemon->counts().regions == 0);
  round_trip(world, memory.data(), memory.size(), "k");
}

TEST_CASE("bad memory is refused with the field and the value") {
  World world;
  std::vector<std::byte> memory(4096);
  CHECK(world.client->register_region(nullptr, 10).status() == Status::invalid_argument);
  CHECK(world.client->register_region(memory.data(), 0).status() == Status::invalid_argument);
  CHECK(world.client->register_region(memory.data(), ~0ull).status() == Status::invalid_argument);
  CHECK(world.client->allocate_region(0).status() == Status::invalid_argument);
  CHECK(world.client->allocate_region(1ull << 62).status() != Status::ok);
  Region region = world.client->register_region(memory.data(), 4096).value();
  const auto twice = world.client->register_region(memory.data() + 4095, 1);
  CHECK(twice.status() == Status::invalid_argument);
  CHECK(twice.error().context.find("overlaps") != std::string::npos);
  CHECK(world.client->register_fd(-1, 0, 4096).status() != Status::ok);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  CHECK(world.client->register_fd(ends[0], 0, 4096).status() == Status::invalid_argument);
  ::close(ends[0]);
  ::close(ends[1]);
  simm::AllocateOptions nowhere;
  nowhere.numa_node = 1023;
  CHECK(world.client->allocate_region(4096, nowhere).status() == Status::invalid_argument);
}

TEST_CASE("a descriptor of the caller, mapped by the caller or by libclient") {
  World world;
  const int fd = ::memfd_create("mine", MFD_CLOEXEC);
  REQUIRE(::ftruncate(fd, 64 * 4096) == 0);
  void* const mapped = ::mmap(nullptr, 32 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
  Region region = world.client->register_fd(fd, 4096, 32 * 4096, mapped).value();
  CHECK(region.kind() == RegionKind::shared);
  round_trip(world, region.data(), region.size(), "1");
  Region second = world.client->register_fd(fd, 33 * 4096, 8 * 4096).value();
  CHECK(second.data() != nullptr);
  round_trip(world, second.data(), second.size(), "2");
  CHECK(world.client->register_fd(fd, 1, 4096).status() == Status::invalid_argument);
  CHECK(world.client->register_fd(fd, 0, 65 * 4096).status() == Status::invalid_argument);
  ::close(fd);
  CHECK(region.deregister().has_value());
  ::munmap(mapped, 32 * 4096);
}

TEST_CASE("a descriptor with an address that is not its mapping is refused") {
  World world;
  const auto file = [] {
    const int fd = ::memfd_create("mine", MFD_CLOEXEC);
    REQUIRE(::ftruncate(fd, 8 * 4096) == 0);
    return fd;
  };
  const auto map = [](int fd, int flags, off_t offset) {
    void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, flags, fd, offset);
    REQUIRE(mapped != MAP_FAILED);
    return mapped;
  };
  const int mine = file();
  const int other = file();
  struct Case {
    const char* what;
    void* mapped;
  };
  for (const Case& bad : {Case{"another file", map(other, MAP_SHARED, 4096)},
                          Case{"another offset", map(mine, MAP_SHARED, 2 * 4096)},
                          Case{"a private copy", map(mine, MAP_PRIVATE, 4096)},
                          Case{"no file", map(-1, MAP_PRIVATE | MAP_ANONYMOUS, 0)}}) {
    CAPTURE(bad.what);
    const auto refused = world.client->register_fd(mine, 4096, 4096, bad.mapped);
    CHECK(refused.status() == Status::invalid_argument);
    if (!refused) CHECK(refused.error().context.find("address = ") == 0);
    ::munmap(bad.mapped, 4096);
  }
  void* const right = map(mine, MAP_SHARED, 4096);
  // What lies behind the mapping is not the file's.
  CHECK(world.client->register_fd(mine, 4096, 7 * 4096, right).status() ==
        Status::invalid_argument);
  CHECK(world.client->register_fd(mine, 4096, 4096, right).has_value());
  ::munmap(right, 4096);
  ::close(mine);
  ::close(other);
}

TEST_CASE("a get into read-only memory is refused; a put from there is not") {
  for (const bool from_fd : {false, true}) {
    CAPTURE(from_fd);
    World world;
    const int fd = ::memfd_create("mine", MFD_CLOEXEC);
    REQUIRE(::ftruncate(fd, 2 * 4096) == 0);
    const int flags = from_fd ? MAP_SHARED : MAP_PRIVATE;
    void* const mapped = ::mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, flags, fd, 0);
    REQUIRE(mapped != MAP_FAILED);
    std::memset(mapped, 7, 2 * 4096);
    REQUIRE(::mprotect(mapped, 4096, PROT_READ) == 0);
    Region region = (from_fd ? world.client->register_fd(fd, 0, 2 * 4096, mapped)
                             : world.client->register_region(mapped, 2 * 4096))
                        .value();
    REQUIRE(world.client->put("k", View(region, 0, 4096)).ok());
    CHECK(world.client->get("k", View(region, 0, 4096)).status == Status::invalid_argument);
    CHECK(std::string(simm::last_error()).find("read-only") != std::string::npos);
    CHECK(world.client->get("k", View(region, 4096, 4096)).ok());
    REQUIRE(::mprotect(mapped, 4096, PROT_READ | PROT_WRITE) == 0);
    CHECK(world.client->get("k", View(region, 0, 4096)).ok());
    CHECK(world.client->stats().attaches == 1);
    (void)region.deregister();
    ::munmap(mapped, 2 * 4096);
    ::close(fd);
  }
}

TEST_CASE("allocated regions: names, pages, prefault and huge pages with a fallback") {
  World world;
  simm::AllocateOptions options;
  options.name = "pool-7";
  options.huge_pages = true;
  Region region = world.client->allocate_region(3 << 20, options).value();
  CHECK(region.size() == 3 << 20);
  unsigned char present[768];
  REQUIRE(::mincore(region.data(), 3 << 20, present) == 0);
  CHECK(std::count_if(present, present + 768, [](unsigned char p) { return (p & 1) != 0; }) == 768);
  round_trip(world, region.data(), region.size(), "h");
}

TEST_CASE(
    "deregistering: safe twice, views and addresses of it are refused, memory can be reused") {
  World world;
  std::vector<std::byte> memory(8192);
  Region region = world.client->register_region(memory.data(), memory.size()).value();
  Region copy = region;
  const View view(region, 0, 100);
  REQUIRE(world.client->put("k", view).ok());
  CHECK(region.deregister().has_value());
  CHECK(region.deregister().has_value());
  CHECK(copy.deregister().has_value());
  CHECK_FALSE(copy.valid());
  CHECK(world.client->put("k", view).status == Status::invalid_state);
  CHECK(world.client->get("k", View(memory.data(), 10)).status == Status::invalid_argument);
  Region again = world.client->register_region(memory.data(), memory.size()).value();
  CHECK(world.client->get("k", View(memory.data(), 100)).ok());
  // The record of the first region is used again in the end; its old view must not fit.
  region = Region();
  copy = Region();
  std::vector<std::byte> other(8192);
  Region third = world.client->register_region(other.data(), other.size()).value();
  CHECK(world.client->get("k", view).status == Status::invalid_state);
  CHECK(Region().deregister().has_value());
  CHECK(Region().data() == nullptr);
}

TEST_CASE("deregistering waits for the region's own operations only") {
  World world;
  Region region = world.client->allocate_region(8192).value();
  Region other = world.client->allocate_region(8192).value();
  world.daemon->stop();
  std::thread caller([&] { CHECK(world.client->put("k", View(region, 0, 4096)).ok()); });
  REQUIRE(world.daemon->wait_until_holding(1));
  std::atomic<int> gone{0};
  std::vector<std::thread> enders;
  for (int i = 0; i < 2; ++i) {  // the second one as well
    enders.emplace_back([&, mine = region]() mutable {
      CHECK(mine.deregister().has_value());
      ++gone;
    });
  }
  while (region.valid()) std::this_thread::yield();
  CHECK(world.client->put("late", View(region, 0, 10)).status == Status::invalid_state);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(gone == 0);
  world.daemon->go_on();
  caller.join();
  for (std::thread& ender : enders) ender.join();
  CHECK(other.valid());
  CHECK(world.daemon->store()->value("/k").size() == 4096);
}

TEST_CASE("a deregister while the daemon pauses waits for it as any other control request does") {
  World world;
  Region region = world.client->allocate_region(8192).value();
  world.daemon->stop();
  std::thread ender([&] { CHECK(region.deregister().has_value()); });
  while (world.daemon->counts().unread == 0) std::this_thread::yield();
  // The pause is what happens here: longer than a second, far shorter than connect_timeout_ms.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1300);
  while (std::chrono::steady_clock::now() < end && world.client->attached()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(world.client->attached());
  world.daemon->go_on();
  ender.join();
  CHECK(world.client->ping() == Status::ok);
  CHECK(world.client->stats().attaches == 1);
  CHECK(world.daemon->counts().regions == 0);
}

TEST_CASE("staged batches larger than the staging memory, and pages larger than it") {
  World world({}, 256 * 1024);
  std::vector<std::byte> memory(24 << 20);
  Region region = world.client->register_region(memory.data(), memory.size()).value();
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) keys.push_back("p" + std::to_string(i));
  std::vector<Item> puts;
  std::vector<Item> gets;
  const std::size_t half = memory.size() / 2;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t length = i % 50 == 49 ? 700'000 : 1000 + i * 97 % 20'000;
    const std::uint64_t at = i * 40'000;
    for (std::size_t b = 0; b < std::min<std::size_t>(length, 40'000); ++b) {
      memory[at + b] = static_cast<std::byte>(i * 31 + b);
    }
    puts.push_back({keys[i], View(region, at, std::min<std::uint64_t>(length, half - at)), 0, 0});
    gets.push_back({keys[i], View(region, half, length), 0, 0});
  }
  std::vector<PageResult> results(keys.size());
  REQUIRE(world.client->put(puts, results) == Status::ok);
  for (const PageResult& result : results) REQUIRE(result.ok());
  CHECK(world.daemon->counts().outstanding_most >= 2);  // copies and transfers overlap
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string stored = world.daemon->store()->value("/" + keys[i]);
    REQUIRE(stored.size() == puts[i].view.length());
    REQUIRE(std::memcmp(stored.data(), memory.data() + i * 40'000, stored.size()) == 0);
    // All gets have the same target, so one at a time.
    std::memset(memory.data() + half, 0xee, half);
    REQUIRE(world.client->get(keys[i], gets[i].view).bytes == stored.size());
    REQUIRE(std::memcmp(stored.data(), memory.data() + half, stored.size()) == 0);
    REQUIRE(memory[half + stored.size()] == std::byte{0xee});
  }
}

TEST_CASE("regions come and go while other threads use them") {
  World world;
  std::vector<std::byte> memory(1 << 20);
  std::atomic<bool> done{false};
  std::vector<std::thread> users;
  for (std::size_t t = 0; t < 2; ++t) {
    users.emplace_back([&, t] {
      while (!done) {
        const auto result =
            world.client->put("k" + std::to_string(t), View(memory.data() + t * 4096, 4096));
        CHECK((result.ok() || result.status == Status::invalid_argument ||
               result.status == Status::invalid_state));
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    Region region = world.client->register_region(memory.data(), memory.size()).value();
    if (i % 2 == 0) CHECK(region.deregister().has_value());
  }
  done = true;
  for (std::thread& user : users) user.join();
  CHECK(world.client->allocate_region(4096).has_value());
}

TEST_CASE("an argument that the daemon would take for a breach is refused here, by its field") {
  World world;
  simm::Region region = world.client->allocate_region(4096).value();
  const View view(region, 0, 100);
  REQUIRE(world.client->put("k", view).ok());
  constexpr std::uint64_t kLongest = 1 << 30;
  simm::CallOptions ranged;
  ranged.ranged = true;
  for (const std::uint64_t offset :
       {kLongest + 1, kLongest << 1, kLongest << 2, kLongest << 33, UINT64_MAX}) {
    CAPTURE(offset);
    const Item item{"k", view, offset, 0};
    PageResult result;
    REQUIRE(world.client->get({&item, 1}, {&result, 1}, ranged) == Status::ok);
    CHECK(result.status == Status::invalid_argument);
    CHECK(std::string(simm::last_error()).find("items[0].object_offset") == 0);
  }
  for (const int mode : {2, 7, 255}) {
    CAPTURE(mode);
    simm::CallOptions options;
    options.mode = static_cast<simm::PutMode>(mode);
    CHECK(world.client->put("k", view, options).status == Status::invalid_argument);
    CHECK(std::string(simm::last_error()).find("mode: ") == 0);
    CHECK(world.client->get("k", view, options).ok());  // it means nothing there
  }
  for (const char* name : {"x\n", "\t", "a\x7f", "\x1b[1m"}) {
    simm::AllocateOptions options;
    options.name = name;
    const auto refused = world.client->allocate_region(4096, options);
    REQUIRE(refused.status() == Status::invalid_argument);
    CHECK(refused.error().context.find("name: ") == 0);
  }
  CHECK(world.client->put("k", view).ok());
  CHECK(world.client->stats().attaches == 1);
}

}  // namespace region_test
