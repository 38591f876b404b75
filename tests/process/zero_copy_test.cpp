// Regions stay shared: over the death of the daemon, and in a forked child that has its own
// session.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "simm/client.h"
#include "tests/support/daemon_process.h"
#include "tests/support/huge_pool.h"

namespace zero_copy_test {

using simm::Client;
using simm::ClientOptions;
using simm::Region;
using simm::RegionKind;
using simm::Status;
using simm::View;
using simm::test_support::DaemonProcess;
using simm::test_support::eventually;

constexpr std::uint64_t kBytes = 64 * 4096;
constexpr std::uint64_t kHalf = kBytes / 2;
constexpr int kNotShared = 2;  // how a child ends then
constexpr const char* kTwoTenants = R"("tenants": [{"name": "red", "uids": [54321]}])";

Client attach(const DaemonProcess& daemon) {
  ClientOptions options;
  options.socket_path = daemon.socket();
  options.lanes = 4;
  auto client = Client::connect(options);
  if (!client) FAIL(client.error().context);
  return std::move(*client);
}

// The first half goes into the pool and comes back in the second.
bool goes_round(Client& client, const Region& region, const std::string& key, int letter) {
  std::memset(region.data(), letter, kHalf);
  std::memset(region.data() + kHalf, 0, kHalf);
  return client.put(key, View(region, 0, kHalf)).ok() &&
         client.get(key, View(region, kHalf, kHalf)).ok() &&
         std::memcmp(region.data(), region.data() + kHalf, kHalf) == 0;
}

// What a child finds: 0 when it is shared and goes round without a copy.
int in_child(Client& client, const Region& region, const std::string& key) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);
    const std::uint64_t before = client.stats().bytes_staged;
    if (!goes_round(client, region, key, 'c')) ::_exit(1);
    if (region.kind() != RegionKind::shared) {
      std::fprintf(stderr, "%s\n", region.kind_reason().c_str());
      ::_exit(kNotShared);
    }
    ::_exit(client.stats().bytes_staged == before ? 0 : 3);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void restart(DaemonProcess& daemon) {
  daemon.signal(SIGKILL);
  CHECK(daemon.wait() == 1000 + SIGKILL);
  REQUIRE(daemon.start());
}

int unsealed_file() {
  const int fd = ::memfd_create("pool", MFD_CLOEXEC);
  REQUIRE(::ftruncate(fd, kBytes) == 0);
  return fd;
}

TEST_CASE("zero copy comes back after the daemon's death, and is there in children") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  Client client = attach(daemon);
  const Region allocated = client.allocate_region(kBytes).value();
  const int fd = unsealed_file();
  const Region given = client.register_fd(fd, 0, kBytes).value();
  ::close(fd);
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    const std::string key = "k" + std::to_string(round);
    for (const Region* region : {&allocated, &given}) {
      CHECK(eventually([&] { return goes_round(client, *region, key, 'a' + round); }));
      INFO(region->kind_reason());
      CHECK(region->kind() == RegionKind::shared);
      CHECK(in_child(client, *region, key + "c") == 0);
    }
    restart(daemon);
  }
  CHECK(client.stats().bytes_staged == 0);
}

TEST_CASE("with several tenants a child shares the mapping of its parent's region") {
  DaemonProcess daemon(kTwoTenants);
  REQUIRE(daemon.start());
  Client client = attach(daemon);
  const Region region = client.allocate_region(kBytes).value();
  CHECK(region.kind_reason().find("sealed") != std::string::npos);
  CHECK(goes_round(client, region, "k", 'a'));
  for (int i = 0; i < 3; ++i) CHECK(in_child(client, region, "c" + std::to_string(i)) == 0);
  CHECK(client.stats().bytes_staged == 0);

  // A sealed file can never be mapped writable again, so the next daemon gets copies.
  restart(daemon);
  CHECK(eventually([&] { return goes_round(client, region, "r", 'r'); }));
  CHECK(region.kind() == RegionKind::staged);
  INFO(region.kind_reason());
  CHECK(region.kind_reason().find("allocate the region anew") != std::string::npos);
  const Region anew = client.allocate_region(kBytes).value();
  CHECK(anew.kind() == RegionKind::shared);
}

// Inode numbers of huge pages come again, so a number does not say which file it is.
TEST_CASE("with several tenants a child's region of huge pages is staged") {
  simm::test_support::HugePool pool(2);
  if (!pool.ready()) return;
  DaemonProcess daemon(kTwoTenants);
  REQUIRE(daemon.start());
  Client client = attach(daemon);
  simm::AllocateOptions options;
  options.huge_pages = true;
  const Region region = client.allocate_region(kBytes, options).value();
  REQUIRE(region.huge_pages());
  CHECK(region.kind() == RegionKind::shared);
  CHECK(goes_round(client, region, "k", 'a'));
  CHECK(in_child(client, region, "c") == kNotShared);
  CHECK(region.kind() == RegionKind::shared);
}

TEST_CASE("with several tenants a file that can be punched is staged, with the remedy") {
  DaemonProcess daemon(kTwoTenants);
  REQUIRE(daemon.start());
  Client client = attach(daemon);
  const int fd = unsealed_file();
  const Region region = client.register_fd(fd, 0, kBytes).value();
  ::close(fd);
  CHECK(region.kind() == RegionKind::staged);
  CHECK(region.kind_reason().find("F_SEAL_SHRINK") != std::string::npos);
  CHECK(goes_round(client, region, "k", 'a'));
  CHECK(daemon.report("regions").size() == 1);  // the staging memory of the lane
  // The remedy.
  const int sealed = ::memfd_create("pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(::ftruncate(sealed, kBytes) == 0);
  REQUIRE(::fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  const Region shared = client.register_fd(sealed, 0, kBytes).value();
  ::close(sealed);
  CHECK(shared.kind() == RegionKind::shared);
  CHECK(goes_round(client, shared, "s", 's'));
}

}  // namespace zero_copy_test
