// Regions of a real daemon that has a real helper: forked by a daemon that runs as root, or a
// service of its own. Without the privilege (not root, no CAP_CHECKPOINT_RESTORE) the daemon must
// say so and stage.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "ipc/fd_socket.h"
#include "simm/client.h"
#include "tests/support/daemon_process.h"
#include "tests/support/paths.h"

namespace adopt_test {

using namespace simm::test_support;

constexpr std::size_t kBytes = 1 << 20;
constexpr uid_t kStranger = 12'345;
constexpr std::uint64_t kWaitNs = 5'000'000'000;

// Anonymous shared memory, as SGLang's host pool is.
struct SharedMemory {
  SharedMemory()
      : data(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(data != MAP_FAILED);
  }
  ~SharedMemory() { ::munmap(data, kBytes); }
  void* data;
};

// Registers existing memory, moves a page through the daemon, and returns the kind it got.
simm::RegionKind use_existing_memory(const DaemonProcess& daemon) {
  SharedMemory memory;
  simm::ClientOptions options;
  options.socket_path = daemon.socket();
  auto client = simm::Client::connect(options);
  REQUIRE(client.has_value());
  auto region = client->register_region(memory.data, kBytes);
  REQUIRE(region.has_value());
  INFO(region->kind_reason());
  CHECK_FALSE(region->kind_reason().empty());
  std::memset(memory.data, 0x5a, 65536);
  CHECK(client->put("k", simm::View(*region, 0, 65536)).status == simm::Status::ok);
  CHECK(client->get("k", simm::View(*region, 65536, 65536)).status == simm::Status::ok);
  CHECK(std::memcmp(memory.data, static_cast<char*>(memory.data) + 65536, 65536) == 0);
  return region->kind();
}

TEST_CASE("a daemon started as root adopts memory through its own helper") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  const simm::RegionKind kind = use_existing_memory(daemon);
  if (::geteuid() == 0) {
    CHECK(kind == simm::RegionKind::adopted);
  } else {
    CHECK(kind == simm::RegionKind::staged);
    CHECK(daemon.log().find("no privilege") != std::string::npos);
  }
}

TEST_CASE("a helper service does the same for a daemon that connects to it") {
  if (::geteuid() != 0) return;  // nobody else may be the helper
  DaemonProcess daemon(R"("memory": {"adopt_socket": "/tmp/simm-adopt-)" +
                       std::to_string(::getpid()) + R"(.sock"})");
  const std::string path = "/tmp/simm-adopt-" + std::to_string(::getpid()) + ".sock";
  const std::string simmd = program("simmd");
  const pid_t helper = ::fork();
  REQUIRE(helper >= 0);
  if (helper == 0) {
    ::execl(simmd.c_str(), "simmd", "adopt", "--socket", path.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  CHECK(eventually([&] { return ::access(path.c_str(), F_OK) == 0; }));
  REQUIRE(daemon.start());
  CHECK(use_existing_memory(daemon) == simm::RegionKind::adopted);
  ::kill(helper, SIGKILL);
  ::waitpid(helper, nullptr, 0);
  // Without its helper the daemon goes on, and says why it stages.
  CHECK(use_existing_memory(daemon) == simm::RegionKind::staged);
  ::unlink(path.c_str());
}

// A helper service, as `simmd adopt` that a test can end.
struct HelperService {
  explicit HelperService(const std::string& socket) : path(socket) { start(); }
  ~HelperService() {
    kill();
    ::unlink(path.c_str());
  }
  void start() {
    const std::string simmd = program("simmd");
    pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::execl(simmd.c_str(), "simmd", "adopt", "--socket", path.c_str(),
              static_cast<char*>(nullptr));
      ::_exit(127);
    }
  }
  void kill() const {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  std::string path;
  pid_t pid = -1;
};

TEST_CASE("a helper service that was started again is found again") {
  if (::geteuid() != 0) return;
  HelperService helper("/tmp/simm-adopt-again-" + std::to_string(::getpid()) + ".sock");
  DaemonProcess daemon(R"("memory": {"adopt_socket": ")" + helper.path + R"("})");
  CHECK(eventually([&] { return ::access(helper.path.c_str(), F_OK) == 0; }));
  REQUIRE(daemon.start());
  CHECK(use_existing_memory(daemon) == simm::RegionKind::adopted);
  helper.kill();
  CHECK(use_existing_memory(daemon) == simm::RegionKind::staged);
  helper.start();
  CHECK(eventually([&] { return use_existing_memory(daemon) == simm::RegionKind::adopted; }));
  // Also when nobody had noticed that it was away.
  helper.kill();
  ::unlink(helper.path.c_str());
  helper.start();
  CHECK(eventually([&] { return ::access(helper.path.c_str(), F_OK) == 0; }));
  CHECK(use_existing_memory(daemon) == simm::RegionKind::adopted);
}

TEST_CASE("a helper service hangs up on whoever is not its daemon's user") {
  if (::geteuid() != 0) return;
  const HelperService helper("/tmp/simm-adopt-whose-" + std::to_string(::getpid()) + ".sock");
  // The file is there a moment before anybody listens.
  CHECK(eventually([&] { return simm::ipc::FdSocket::connect(helper.path, kWaitNs).has_value(); }));
  // Even if the permissions let him in.
  REQUIRE(::chmod(helper.path.c_str(), 0666) == 0);
  const pid_t stranger = ::fork();
  REQUIRE(stranger >= 0);
  if (stranger == 0) {
    if (::setuid(kStranger) != 0) ::_exit(2);
    auto socket = simm::ipc::FdSocket::connect(helper.path, kWaitNs);
    if (!socket) ::_exit(3);
    std::array<std::byte, 64> answer{};
    const auto received = socket->receive(answer, kWaitNs);
    ::_exit(received.result == simm::ipc::SocketResult::hung_up ? 0 : 4);
  }
  int status = 0;
  REQUIRE(::waitpid(stranger, &status, 0) == stranger);
  CHECK(WEXITSTATUS(status) == 0);
  // It goes on for its daemon.
  DaemonProcess daemon(R"("memory": {"adopt_socket": ")" + helper.path + R"("})");
  REQUIRE(daemon.start());
  CHECK(use_existing_memory(daemon) == simm::RegionKind::adopted);
}

TEST_CASE("with adoption off, existing memory is staged and works") {
  DaemonProcess daemon(R"("memory": {"adopt": false})");
  REQUIRE(daemon.start());
  CHECK(use_existing_memory(daemon) == simm::RegionKind::staged);
}

}  // namespace adopt_test
