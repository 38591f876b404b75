// What a hostile process can do to the attach socket of a real daemon: nothing to others.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ipc/layout.h"
#include "tests/support/daemon_process.h"
#include "tests/support/paths.h"
#include "tests/support/raw_client.h"

namespace attach_hostile_test {

using namespace simm::test_support;
using namespace simm;
using nlohmann::json;

std::size_t sessions(const DaemonProcess& daemon) {
  return json::parse(daemon.ask("sessions")).size();
}

bool serves(const DaemonProcess& daemon) {
  RawClient client(daemon.socket());
  return client.attach();
}

TEST_CASE("floods of descriptors and of connections leave no descriptor behind") {
  DaemonProcess daemon(R"("session": {"handshake_ms": 200})");
  REQUIRE(daemon.start());
  REQUIRE(serves(daemon));
  CHECK(eventually([&] { return sessions(daemon) == 0; }));
  const std::size_t before = daemon.open_descriptors();
  for (int i = 0; i < 20; ++i) {
    RawClient client(daemon.socket());
    client.send_descriptors(std::vector<int>(253, STDIN_FILENO));
    CHECK(client.hung_up());
  }
  for (int i = 0; i < 500; ++i) RawClient client(daemon.socket());
  for (int i = 0; i < 20; ++i) {
    RawClient client(daemon.socket());
    REQUIRE(client.attach());
    client.send_descriptors(std::vector<int>(4, STDIN_FILENO));
    CHECK(client.hung_up());
  }
  CHECK(eventually([&] { return sessions(daemon) == 0; }));
  CHECK(eventually([&] { return daemon.open_descriptors() <= before; }));
  CHECK(serves(daemon));
}

TEST_CASE("silent connections are thrown out, and others get in meanwhile") {
  DaemonProcess daemon(R"("session": {"handshake_ms": 300})");
  REQUIRE(daemon.start());
  std::vector<RawClient> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(daemon.socket());
  // 64 of them hold the door for 0.3 s; the rest, and then this one, get their turn.
  CHECK(serves(daemon));
  CHECK(daemon.counter("limit.unauthenticated_per_socket.reached") > 0);
  for (RawClient& client : silent) CHECK(client.hung_up());
  CHECK(daemon.counter("control.closed.handshake_timeout") == 100);
}

TEST_CASE("a user with all sessions of a socket keeps another tenant's user out of nothing") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to connect as another user needs root");
    return;
  }
  constexpr uid_t kRed = 54321;
  constexpr uid_t kGreen = 54322;
  DaemonProcess daemon(R"("sockets": [{"path": "$DIR/simm.sock", "mode": "0666"}],
    "tenants": [{"name": "red", "uids": [54321]}, {"name": "green", "uids": [54322]}],
    "session": {"sessions_max": 3})");
  const bool started = daemon.start();
  REQUIRE_MESSAGE(started, daemon.log());
  REQUIRE(::chmod(daemon.directory().c_str(), 0755) == 0);
  // The kernel keeps a user for each thread: this one's clients are that user's.
  const auto attach_as = [&](uid_t uid, std::vector<RawClient>& clients) {
    bool attached = false;
    std::thread([&] {
      if (::syscall(SYS_setresuid, uid, uid, uid) != 0) return;
      attached = clients.emplace_back(daemon.socket()).attach(1);
    }).join();
    return attached;
  };
  std::vector<RawClient> clients;
  clients.reserve(6);
  for (int i = 0; i < 3; ++i) CHECK(attach_as(kRed, clients));
  // As many of the other tenant: the data agents have room for both.
  for (int i = 0; i < 3; ++i) CHECK(attach_as(kGreen, clients));
  CHECK(sessions(daemon) == 6);
}

TEST_CASE("odd descriptors are no region") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  RawClient client(daemon.socket());
  REQUIRE(client.attach());
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const std::vector<int> odd = {
      ends[0],
      ::open("/tmp", O_RDONLY | O_CLOEXEC),
      ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC),
      ::open("/dev/null", O_RDWR | O_CLOEXEC),
      ::open(program("simmd").c_str(), O_RDONLY | O_CLOEXEC),
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
  };
  for (const int fd : odd) {
    ipc::RegisterRegion wanted;
    wanted.kind = ipc::RegionRequestKind::shared;
    wanted.length = 4096;
    wanted.has_fd = true;
    const std::array<int, 1> fds = {fd};
    REQUIRE(client.send(wanted, fds));
    const auto reply = client.receive();
    REQUIRE(reply.has_value());
    CHECK(std::get<ipc::RegionReply>(*reply).status != Status::ok);
    CHECK(std::get<ipc::RegionReply>(*reply).handle == ipc::kNoRegion);
    ::close(fd);
  }
  ::close(ends[1]);
}

TEST_CASE("a lying ring cursor poisons its own session only") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  RawClient good(daemon.socket());
  REQUIRE(good.attach());
  RawClient bad(daemon.socket());
  REQUIRE(bad.attach(1));
  __atomic_store_n(&bad.lane_memory(0).control()->submission_tail.word, 1'000'000u,
                   __ATOMIC_SEQ_CST);
  bad.ring();
  const auto told = bad.receive();
  REQUIRE(told.has_value());
  CHECK(std::get<ipc::Poisoned>(*told).reason == ipc::PoisonReason::ring_cursor);
  CHECK(bad.hung_up());
  CHECK(daemon.counter("session.0.poisoned.ring_cursor") == 1);
  REQUIRE(good.send(ipc::OpenNamespace{5, "n", false, false}));
  const auto reply = good.receive();
  REQUIRE(reply.has_value());
  CHECK(std::get<ipc::NamespaceReply>(*reply).status == Status::ok);
}

TEST_CASE("a client that is killed leaves no session and no descriptor") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  REQUIRE(serves(daemon));
  CHECK(eventually([&] { return sessions(daemon) == 0; }));
  const std::size_t before = daemon.open_descriptors();
  for (int i = 0; i < 10; ++i) {
    int ready[2];
    REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      RawClient client(daemon.socket());
      const char byte = client.attach() ? 'y' : 'n';
      [[maybe_unused]] const ssize_t told = ::write(ready[1], &byte, 1);
      ::pause();
      ::_exit(0);
    }
    char byte = 0;
    CHECK(::read(ready[0], &byte, 1) == 1);
    CHECK(byte == 'y');
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  CHECK(eventually([&] { return sessions(daemon) == 0; }));
  CHECK(eventually([&] { return daemon.open_descriptors() <= before; }));
}

}  // namespace attach_hostile_test
