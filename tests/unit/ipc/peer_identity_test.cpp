#include "ipc/peer_identity.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "ipc/fd_listener.h"
#include "ipc/fd_socket.h"
#include "tests/support/temporary_directory.h"

namespace peer_identity_test {

using namespace simm::ipc;
using simm::Expected;
using simm::Status;
using simm::test_support::TemporaryDirectory;

// A process that connects to a listener, tells so, and lives until it is killed.
struct Peer {
  const TemporaryDirectory directory = TemporaryDirectory::for_all_users();
  pid_t pid = -1;
  std::optional<FdListener> listener;
  FdSocket socket;

  explicit Peer(const char* name, uid_t uid = ::getuid(), gid_t gid = ::getgid()) {
    const std::string path = directory / "s";
    Expected<FdListener> made = FdListener::listen(path, 0777, 4);
    REQUIRE(made);
    listener.emplace(std::move(made).value());
    pid = ::fork();
    if (pid == 0) live(path, name, uid, gid);
    auto first = FdSocket();
    for (;;) {
      auto accepted = listener->accept();
      REQUIRE(accepted);
      if (accepted->has_value()) {
        socket = std::move(**accepted);
        break;
      }
      ::usleep(200);
    }
  }
  ~Peer() { stop(); }
  void stop() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = -1;
  }

private:
  [[noreturn]] static void live(const std::string& path, const char* name, uid_t uid, gid_t gid) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_NAME, name);
    if (::setgid(gid) != 0 || ::setuid(uid) != 0) ::_exit(1);
    Expected<FdSocket> connected = FdSocket::connect(path, 1'000'000'000);
    if (!connected) ::_exit(2);
    for (;;) ::pause();
  }
};

}  // namespace peer_identity_test

TEST_CASE("a peer is known by what the kernel recorded, alive until it exits") {
  using namespace peer_identity_test;
  for (const PidfdSource source : {PidfdSource::kernel_or_number, PidfdSource::by_number}) {
    Peer peer("plain");
    Expected<PeerIdentity> identity = PeerIdentity::of(peer.socket.fd(), source);
    REQUIRE(identity);
    CHECK(identity->pid() == peer.pid);
    CHECK(identity->uid() == ::getuid());
    CHECK(identity->gid() == ::getgid());
    CHECK(identity->pidfd() >= 0);
    CHECK(identity->start_time_ticks() == process_start_time_ticks(peer.pid));
    CHECK(identity->start_time_ticks() != 0);
    CHECK(identity->is_alive());
    peer.stop();
    CHECK_FALSE(identity->is_alive());
  }
}

TEST_CASE("the credentials are those of the other user") {
  using namespace peer_identity_test;
  if (::getuid() != 0) {
    MESSAGE("skipped: changing the user needs root");
    return;
  }
  for (const PidfdSource source : {PidfdSource::kernel_or_number, PidfdSource::by_number}) {
    Peer peer("other", 12345, 23456);
    Expected<PeerIdentity> identity = PeerIdentity::of(peer.socket.fd(), source);
    REQUIRE(identity);
    CHECK(identity->uid() == 12345);
    CHECK(identity->gid() == 23456);
  }
}

TEST_CASE("a program that calls itself ') 1 2 3' does not forge its start time") {
  using namespace peer_identity_test;
  Peer honest("honest");
  Peer forger(") S 1 2 3 4 5 6");
  const std::uint64_t first = process_start_time_ticks(honest.pid);
  const std::uint64_t second = process_start_time_ticks(forger.pid);
  CHECK(second >= first);
  CHECK(second - first < 1000);  // ten seconds at the usual 100 ticks
}

TEST_CASE("a peer that died before it was asked about has no identity") {
  using namespace peer_identity_test;
  for (const PidfdSource source : {PidfdSource::kernel_or_number, PidfdSource::by_number}) {
    Peer peer("short-lived");
    peer.stop();
    CHECK(PeerIdentity::of(peer.socket.fd(), source).status() == Status::unreachable);
  }
}

TEST_CASE("a zombie is not alive") {
  using namespace peer_identity_test;
  Peer peer("zombie");
  Expected<PeerIdentity> identity = PeerIdentity::of(peer.socket.fd());
  REQUIRE(identity);
  ::kill(peer.pid, SIGKILL);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(peer.pid), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(identity->is_alive());
}

TEST_CASE("what is not a Unix socket has no peer, and no process has no start time") {
  using namespace peer_identity_test;
  CHECK_FALSE(PeerIdentity::of(STDIN_FILENO));
  CHECK(process_start_time_ticks(0x7fffffff) == 0);
}
