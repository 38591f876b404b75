// Memory that nobody has touched: libclient makes it present before the daemon uses it, again when
// it went, and copies through staging memory when that does not help.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "fake_daemon.h"
#include "ipc/fd.h"
#include "ipc/futex.h"
#include "libclient/present_pages.h"
#include "simm/client.h"

namespace absent_memory_test {

using libclient_test::FakeDaemon;
using libclient_test::FakeOptions;
using libclient_test::SocketPlace;
using simm::Client;
using simm::Item;
using simm::PageResult;
using simm::Region;
using simm::RegionKind;
using simm::Status;
using simm::View;
using simm::detail::PresentPages;
namespace ipc = simm::ipc;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kGets = 10'000;
constexpr std::uint64_t kBytes = kGets * kPage;

struct World {
  explicit World(FakeOptions fake) {
    fake.path = place.path();
    fake.adopts = true;
    daemon = std::make_unique<FakeDaemon>(fake);
    simm::ClientOptions options;
    options.socket_path = place.path();
    options.sync_timeout_ms = options.async_timeout_ms = 60'000;
    client.emplace(Client::connect(options).value());
    Region small = client->allocate_region(kPage).value();
    std::memset(small.data(), 'v', kPage);
    daemon->store()->order();
    REQUIRE(client->put("k", View(small, 0, kPage)).ok());
    daemon->store()->order();
  }
  [[nodiscard]] std::uint32_t absent() const { return daemon->counts().absent; }

  SocketPlace place;
  std::unique_ptr<FakeDaemon> daemon;
  std::optional<Client> client;
};

FakeOptions with_presence() {
  FakeOptions options;
  options.checks_presence = true;
  return options;
}

FakeOptions in_vain() {
  FakeOptions options;
  options.maps_in_vain = true;
  return options;
}

// Memory that nobody touched, of each kind that the daemon maps.
struct Untouched {
  ~Untouched() {
    region = Region();
    if (mapping != MAP_FAILED) ::munmap(mapping, bytes);
  }
  void allocate(Client& client) {
    simm::AllocateOptions options;
    options.prefault = false;
    region = client.allocate_region(bytes, options).value();
  }
  void take_file(Client& client) {
    fd = ipc::UniqueFd(::memfd_create("untouched", MFD_CLOEXEC));
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    region = client.register_fd(fd.get(), 0, bytes).value();
  }
  void map(Client& client) {
    mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapping != MAP_FAILED);
    region = client.register_region(mapping, bytes).value();
    REQUIRE(region.kind() == RegionKind::adopted);
  }
  explicit Untouched(std::uint64_t size = kBytes) : bytes(size) {}
  const std::uint64_t bytes;
  ipc::UniqueFd fd;
  void* mapping = MAP_FAILED;
  Region region;
};

void get_everywhere(World& world, const Region& region) {
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < kGets; ++i) {
    if (!world.client->get("k", View(region, i * kPage, kPage)).ok()) ++failed;
  }
  CHECK(failed == 0);
  CHECK(world.absent() == 0);
  world.daemon->store()->order();
  CHECK(region.data()[kBytes - 1] == std::byte{'v'});
  CHECK(world.client->stats().bytes_made_present > 0);
  CHECK(world.client->stats().bytes_staged == 0);
}

TEST_CASE("ten thousand gets into untouched memory of each kind") {
  const auto run = [](auto make) {
    World world(with_presence());
    Untouched memory;
    make(memory, *world.client);
    get_everywhere(world, memory.region);
  };
  SUBCASE("allocated") {
    run([](Untouched& memory, Client& client) { memory.allocate(client); });
  }
  SUBCASE("a memory file") {
    run([](Untouched& memory, Client& client) { memory.take_file(client); });
  }
  SUBCASE("a shared mapping") {
    run([](Untouched& memory, Client& client) { memory.map(client); });
  }
}

TEST_CASE("asynchronous batches, and puts from memory that was never written") {
  World world(with_presence());
  Untouched memory;
  memory.map(*world.client);
  std::vector<Item> items;
  std::vector<std::string> keys;
  std::vector<PageResult> results(kGets);
  keys.reserve(kGets);
  for (std::uint64_t i = 0; i < kGets; ++i) {
    keys.push_back("a" + std::to_string(i));
    items.push_back({keys.back(), View(memory.region, i * kPage, kPage), 0, 0});
  }
  std::optional<Status> outcome;
  REQUIRE(world.client
              ->put_async(items, results, {},
                          [&](const simm::Completed& done) { outcome = done.status; })
              .has_value());
  while (!outcome) world.client->poll();
  CHECK(*outcome == Status::ok);
  std::uint64_t failed = 0;
  for (const PageResult& result : results) failed += result.ok() ? 0u : 1u;
  CHECK(failed == 0);
  CHECK(world.absent() == 0);
}

TEST_CASE("what a region made once is not asked of the kernel again, what it lost is") {
  World world(with_presence());
  Untouched memory(1 << 20);
  memory.take_file(*world.client);
  const View view(memory.region, 3 * kPage, 2 * kPage);
  REQUIRE(world.client->get("k", view).ok());
  const std::uint64_t made = world.client->stats().bytes_made_present;
  REQUIRE(world.client->get("k", view).ok());
  CHECK(world.client->stats().bytes_made_present == made);
  REQUIRE(::fallocate(memory.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20) ==
          0);
  REQUIRE(world.client->get("k", view).ok());
  CHECK(world.absent() == 1);
  CHECK(world.client->stats().bytes_made_present > made);
  CHECK(world.client->stats().bytes_staged == 0);
}

TEST_CASE("where making it present does not help, libclient copies: single, batch and async") {
  World world(in_vain());
  Untouched memory(1 << 20);
  memory.map(*world.client);
  Client& client = *world.client;
  REQUIRE(client.get("k", View(memory.region, 0, kPage)).ok());
  CHECK(memory.region.data()[7] == std::byte{'v'});
  CHECK(client.stats().bytes_staged > 0);

  const std::vector<Item> items = {{"k", View(memory.region, 4 * kPage, kPage), 0, 0},
                                   {"none", View(memory.region, 8 * kPage, kPage), 0, 0},
                                   {"k", View(memory.region, 12 * kPage, kPage), 0, 0}};
  for (const bool is_async : {false, true}) {
    std::memset(memory.region.data(), 0, memory.bytes);
    std::vector<PageResult> results(3);
    std::optional<Status> outcome;
    if (is_async) {
      REQUIRE(client
                  .get_async(items, results, {},
                             [&](const simm::Completed& done) { outcome = done.status; })
                  .has_value());
      while (!outcome) client.poll();
    } else {
      outcome = client.get(items, results);
    }
    CHECK(*outcome == Status::ok);
    CHECK(results[0].ok());
    CHECK(results[1].status == Status::not_found);
    CHECK(results[1].bytes == 0);
    CHECK(results[2].ok());
    CHECK(results[2].bytes == kPage);
    CHECK(memory.region.data()[12 * kPage] == std::byte{'v'});
  }
}

TEST_CASE("memory that can not be copied to is refused, and the text says what to do") {
  World world(in_vain());
  Untouched memory(1 << 20);
  memory.map(*world.client);
  // Behind the back of the library, which would refuse memory that it knows to be read-only.
  REQUIRE(::mprotect(memory.region.data(), memory.region.size(), PROT_READ) == 0);
  const auto got = world.client->get("k", View(memory.region, 0, kPage));
  CHECK(got.status == Status::out_of_memory);
  CHECK(std::string(simm::last_error()).find("memory.touch_budget_bytes") != std::string::npos);
  std::vector<PageResult> results(2);
  const std::vector<Item> items = {{"k", View(memory.region, 0, kPage), 0, 0},
                                   {"none", View(memory.region, kPage, kPage), 0, 0}};
  CHECK(world.client->get(items, results) == Status::ok);
  CHECK(results[0].status == Status::out_of_memory);
  CHECK(results[0].bytes == 0);
  CHECK(world.client->put("other", View(memory.region, 0, kPage)).ok());
}

TEST_CASE("pages are known by chunks, and nothing is begun after the deadline") {
  constexpr std::uint64_t kLength = 4 * PresentPages::kChunkBytes - 100;
  void* const place =
      ::mmap(nullptr, kLength + 100, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(place != MAP_FAILED);
  auto* const memory = static_cast<std::byte*>(place);
  const auto present = [&](std::uint64_t offset) {
    unsigned char answer = 0;
    REQUIRE(::mincore(memory + offset / kPage * kPage, kPage, &answer) == 0);
    return (answer & 1) != 0;
  };
  PresentPages pages;
  pages.open(memory, kLength, false);
  CHECK_FALSE(pages.all());
  CHECK_FALSE(pages.known(0, 1));
  CHECK(pages.make(10, 1, 0, false) == PresentPages::Made::late);
  CHECK_FALSE(present(0));
  CHECK(pages.make(PresentPages::kChunkBytes + 10, 1, ipc::kNoDeadlineNs, false) ==
        PresentPages::Made::present);
  CHECK(pages.known(PresentPages::kChunkBytes, PresentPages::kChunkBytes));
  CHECK_FALSE(pages.known(PresentPages::kChunkBytes - 1, 2));
  CHECK(present(2 * PresentPages::kChunkBytes - 1));
  CHECK_FALSE(present(2 * PresentPages::kChunkBytes));
  CHECK(pages.make(0, kLength, ipc::kNoDeadlineNs, false) == PresentPages::Made::present);
  CHECK(pages.all());
  CHECK(present(kLength - 1));

  // A hole in the address space: what the range itself has is made present, and not remembered.
  REQUIRE(::munmap(memory + kPage, kPage) == 0);
  pages.open(memory, kLength, false);
  CHECK(pages.make(0, kPage, ipc::kNoDeadlineNs, false) == PresentPages::Made::present);
  CHECK_FALSE(pages.known(0, kPage));
  CHECK(pages.make(kPage, kPage, ipc::kNoDeadlineNs, false) == PresentPages::Made::failed);
  CHECK(::munmap(place, kLength + 100) == 0);
}

}  // namespace absent_memory_test
