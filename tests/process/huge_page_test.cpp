// Huge pages for real: the daemon's pool and a client's region out of a hugetlb pool that is large
// enough, too small, and gone.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <future>
#include <string>

#include "simm/client.h"
#include "tests/support/daemon_process.h"
#include "tests/support/huge_pool.h"

namespace huge_page_test {

using simm::Client;
using simm::Region;
using simm::Status;
using simm::View;
using simm::test_support::DaemonProcess;
using simm::test_support::eventually;
using simm::test_support::HugePool;

constexpr std::uint64_t kArenaPages = 32;  // the 64 MiB of DaemonProcess
constexpr std::uint64_t kPayload = 3 * HugePool::kPageBytes / 2;

Client connect(const DaemonProcess& daemon) {
  simm::ClientOptions options;
  options.socket_path = daemon.socket();
  options.sync_timeout_ms = 20'000;
  auto client = Client::connect(options);
  REQUIRE(client.has_value());
  return std::move(*client);
}

Region allocate(Client& client, std::uint64_t bytes) {
  simm::AllocateOptions options;
  options.huge_pages = true;
  auto region = client.allocate_region(bytes, options);
  REQUIRE(region.has_value());
  return std::move(*region);
}

bool all(const std::byte* from, std::uint64_t bytes, int value) {
  return std::all_of(from, from + bytes,
                     [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

// Objects that lie across pages, there and back.
void check_round_trips(Client& client, Region& region) {
  for (int i = 0; i < 8; ++i) {
    const std::string key = "huge " + std::to_string(i);
    std::memset(region.data(), 0x40 + i, kPayload);
    REQUIRE(client.put(key, View(region, 0, kPayload)).status == Status::ok);
  }
  for (int i = 0; i < 8; ++i) {
    std::memset(region.data(), 0, kPayload);
    const auto got = client.get("huge " + std::to_string(i), View(region, 0, kPayload));
    REQUIRE(got.status == Status::ok);
    CHECK(all(region.data(), kPayload, 0x40 + i));
  }
}

TEST_CASE("pool and region are huge pages when there are enough, in both modes") {
  for (const std::string mode : {"require", "try"}) {
    CAPTURE(mode);
    HugePool pool(kArenaPages + 2);
    if (!pool.ready()) return;
    DaemonProcess daemon(R"("node": {"hugepages": ")" + mode + "\"}");
    REQUIRE(daemon.start());
    CHECK(pool.free_pages() == 2);  // the rest is the arena's, touched or not
    Client client = connect(daemon);
    Region region = allocate(client, 2 * HugePool::kPageBytes);
    CHECK(region.huge_pages());
    CHECK(region.kind() == simm::RegionKind::shared);
    CHECK(pool.free_pages() == 0);
    check_round_trips(client, region);
  }
}

TEST_CASE("too few huge pages: require refuses to start, try falls back and says so") {
  HugePool pool(4);
  if (!pool.ready()) return;
  DaemonProcess strict(R"("node": {"hugepages": "require"})");
  CHECK_FALSE(strict.start());
  CHECK(strict.wait() == 1);
  CHECK(strict.log().find("node.hugepages = require") != std::string::npos);
  DaemonProcess daemon(R"("node": {"hugepages": "try"})");
  REQUIRE(daemon.start());
  CHECK(daemon.log().find("no huge pages") != std::string::npos);
  CHECK(pool.free_pages() == 4);
  Client client = connect(daemon);
  Region region = allocate(client, 8 * HugePool::kPageBytes);
  CHECK_FALSE(region.huge_pages());
  check_round_trips(client, region);
}

// Taking pages back from a stopped daemon needs as many again; without them the call waits, and the
// memory stays what it was.
TEST_CASE("a stopped daemon keeps huge pages that can not be exchanged, and the caller waits") {
  HugePool pool(2);
  if (!pool.ready()) return;
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  Client client = connect(daemon);
  Region region = allocate(client, 2 * HugePool::kPageBytes);
  REQUIRE(region.huge_pages());
  REQUIRE(pool.free_pages() == 0);
  std::memset(region.data(), 0x31, region.size());
  REQUIRE(client.put("kept", View(region, 0, 4096)).status == Status::ok);
  daemon.signal(SIGSTOP);
  simm::CallOptions soon;
  soon.timeout_ms = 50;
  auto call = std::async(std::launch::async, [&] {
    return client.get("kept", View(region, HugePool::kPageBytes, 4096), soon).status;
  });
  CHECK(call.wait_for(std::chrono::seconds(2)) == std::future_status::timeout);
  CHECK(all(region.data(), region.size(), 0x31));
  daemon.signal(SIGCONT);
  const Status ended = call.get();
  CHECK((ended == Status::timeout || ended == Status::ok));
  CHECK(all(region.data(), region.size(), 0x31));
  std::memset(region.data(), 0, region.size());
  // The page is copied since taking back was tried; it goes on working.
  CHECK(eventually([&] { return client.get("kept", View(region, 0, 4096)).status == Status::ok; }));
  CHECK(all(region.data(), 4096, 0x31));
}

}  // namespace huge_page_test
