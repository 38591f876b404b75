// A daemon with a large pool of small pages dies: the kernel takes long to let go of the memory,
// and closes the daemon's sockets only then.
#include <doctest/doctest.h>
#include <poll.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>

#include "ipc/fd_socket.h"
#include "simm/client.h"
#include "tests/support/daemon_process.h"

namespace large_pool_death_test {

using simm::Status;
using simm::test_support::DaemonProcess;
using simm::test_support::eventually;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPoolBytes = std::uint64_t{4} << 30;

// Huge pages are gone in a moment: then there is nothing to see.
bool has_small_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string text;
  std::getline(file, text);
  return text.empty() || text.find("[never]") != std::string::npos ||
         text.find("[deny]") != std::string::npos;
}

std::uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> name >> kib >> unit) {
    if (name == "MemAvailable:") return kib << 10;
  }
  return 0;
}

TEST_CASE(
    "kill -9 of a daemon with a large pool: calls end before the kernel has closed its sockets") {
  if (!has_small_pages() || available_bytes() < 2 * kPoolBytes) {
    MESSAGE("SKIPPED: this needs 8 GiB of free memory, and shared memory in small pages");
    return;
  }
  DaemonProcess daemon(R"("node": {"hugepages": "off", "pool_bytes": "4GiB", "prefault": true})");
  REQUIRE(daemon.start());
  simm::ClientOptions options;
  options.socket_path = daemon.socket();
  auto client = simm::Client::connect(options);
  REQUIRE(client.has_value());
  auto region = client->allocate_region(1 << 20);
  REQUIRE(region.has_value());
  REQUIRE(client->put("k", simm::View(*region, 0, 1 << 20)).ok());
  REQUIRE(
      eventually([&] { return daemon.counter("pool.prefaulted_bytes") == kPoolBytes; }, 120'000));
  // A connection like any other of the daemon's.
  auto other = simm::ipc::FdSocket::connect(daemon.admin_socket(), 1'000'000'000);
  REQUIRE(other.has_value());
  const auto is_open = [&] {
    pollfd entry{other->fd(), POLLRDHUP, 0};
    return ::poll(&entry, 1, 0) == 0;
  };
  REQUIRE(is_open());

  simm::CallOptions call;
  call.timeout_ms = 20'000;
  const auto begun = Clock::now();
  daemon.signal(SIGKILL);
  Status status = Status::ok;
  while (status == Status::ok) {
    status = client->get("k", simm::View(*region, 0, 1 << 20), call).status;
  }
  const bool was_open = is_open();
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  CHECK(status == Status::unreachable);
  CHECK(was_open);
  CHECK(client->exists("k", call).status == Status::unreachable);
  REQUIRE(eventually([&] { return !is_open(); }));
  const auto closed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  MESSAGE("unreachable after " << elapsed.count() << " ms, sockets closed after " << closed.count()
                               << " ms");
}

}  // namespace large_pool_death_test
