// A client process for tests: connects over a real socket (so the kernel records who it is), runs a
// set-up of the test's choice, and then carries out one-letter commands.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "ipc/fd_listener.h"
#include "ipc/fd_socket.h"
#include "ipc/peer_identity.h"
#include "tests/support/temporary_directory.h"

namespace simm::memory::testing {

// What the set-up tells the test.
struct ClientReport {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

struct ForkedClientSpec {
  uid_t uid = 12345;
  gid_t gid = 12345;
  bool keeps_saved_root = false;              // may become root again, as a set-user-ID program has
  std::function<void()> before_drop = [] {};  // still as the test's own user
  std::function<ClientReport()> set_up = [] { return ClientReport{}; };
  std::function<void(char)> command = [](char) {};
};

class ForkedClient {
public:
  explicit ForkedClient(const ForkedClientSpec& spec) {
    auto listener = ipc::FdListener::listen(directory_ / "s", 0777, 4);
    REQUIRE(listener);
    auto pipe = ipc::FdSocket::pair();
    REQUIRE(pipe);
    pid_ = ::fork();
    if (pid_ == 0) live(spec, std::move(pipe->second));
    pipe->second.close();
    control_ = std::move(pipe->first);
    report_ = wait_report();
    auto accepted = listener->accept();
    REQUIRE(accepted);
    REQUIRE(accepted->has_value());
    socket = std::move(**accepted);
    auto identified = ipc::PeerIdentity::of(socket.fd());
    REQUIRE(identified);
    identity.emplace(std::move(identified).value());
  }
  ForkedClient(const ForkedClient&) = delete;
  ForkedClient& operator=(const ForkedClient&) = delete;
  ~ForkedClient() { end(); }

  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  // Has the client carry out a command and waits until it has.
  void command(char letter) {
    tell(letter);
    std::byte done{};
    REQUIRE(control_.receive({&done, 1}, 60'000'000'000).result == ipc::SocketResult::done);
  }
  // Without waiting: for commands that do not come back.
  void tell(char letter) {
    const std::byte message{static_cast<unsigned char>(letter)};
    REQUIRE(control_.try_send({&message, 1}) == ipc::SocketResult::done);
  }

  [[nodiscard]] std::uint64_t address() const { return report_.address; }
  [[nodiscard]] std::uint64_t length() const { return report_.length; }
  [[nodiscard]] pid_t pid() const { return pid_; }

  ipc::FdSocket socket;
  std::optional<ipc::PeerIdentity> identity;

private:
  ClientReport wait_report() {
    ClientReport report;
    const auto received =
        control_.receive(std::as_writable_bytes(std::span(&report, 1)), 10'000'000'000);
    REQUIRE(received.result == ipc::SocketResult::done);
    REQUIRE(received.bytes == sizeof report);
    return report;
  }

  [[noreturn]] void live(const ForkedClientSpec& spec, ipc::FdSocket control) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    spec.before_drop();
    if (::getuid() == 0 && spec.uid != 0) {
      const uid_t saved = spec.keeps_saved_root ? 0 : spec.uid;
      if (::setgid(spec.gid) != 0 || ::setresuid(spec.uid, spec.uid, saved) != 0) ::_exit(1);
      // A program that was started by its user is dumpable; changing the user has cleared it.
      ::prctl(PR_SET_DUMPABLE, 1);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    auto connected = ipc::FdSocket::connect(directory_ / "s", 1'000'000'000);
    if (!connected) ::_exit(2);
    const ClientReport report = spec.set_up();
    if (control.try_send(std::as_bytes(std::span(&report, 1))) != ipc::SocketResult::done) {
      ::_exit(3);
    }
    for (;;) {
      std::byte letter{};
      const auto received = control.receive({&letter, 1}, 3'600'000'000'000);
      if (received.result != ipc::SocketResult::done) ::_exit(0);
      spec.command(static_cast<char>(letter));
      if (control.try_send({&letter, 1}) != ipc::SocketResult::done) ::_exit(4);
    }
  }

  const test_support::TemporaryDirectory directory_ =
      test_support::TemporaryDirectory::for_all_users();
  ipc::FdSocket control_;
  ClientReport report_;
  pid_t pid_ = -1;
};

// Tests that need privilege say so where it is missing, and count.
inline bool is_root() {
  static int skipped = 0;
  if (::getuid() == 0) return true;
  ++skipped;
  MESSAGE("skipped, number " << skipped << " of this run: acting for other users needs root");
  return false;
}

inline char* map_anonymous(std::uint64_t bytes, int sharing) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ::_exit(10);
  return static_cast<char*>(memory);
}

inline ClientReport report_of(const void* address, std::uint64_t length) {
  return {reinterpret_cast<std::uint64_t>(address), length};
}

}  // namespace simm::memory::testing
