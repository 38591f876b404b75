// Clients that bring the memory of their session and change it under the daemon's hands: pages are
// punched out and the size changes while the daemon takes it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <span>
#include <variant>

#include "ipc/layout.h"
#include "ipc/mapping.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace brought_memory {

using test_support::RawClient;

constexpr std::uint32_t kLanes = 2;
constexpr off_t kPage = 4096;

// Goes on until the daemon's seals stop it, or it is killed.
[[noreturn]] void fight(int fd, bool shrinks) {
  const auto bytes = static_cast<off_t>(ipc::session_bytes(kLanes));
  for (;;) {
    for (off_t at = 0; at < bytes; at += 16 * kPage) {
      if (shrinks) {
        (void)!::ftruncate(fd, bytes - kPage);
        (void)!::ftruncate(fd, bytes);
      } else {
        (void)!::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, kPage);
      }
    }
  }
}

// Hello of a client that would bring its memory; whether the daemon takes it.
bool is_invited(RawClient& client) {
  ipc::Hello hello;
  hello.lane_count = kLanes;
  hello.extensions = ipc::kClientMemory;
  const auto answer = client.ask(hello);
  const auto* welcome = answer ? std::get_if<ipc::Welcome>(&*answer) : nullptr;
  REQUIRE(welcome != nullptr);
  return (welcome->extensions & ipc::kClientMemory) != 0;
}

// Whether it was let in.
bool brings(const std::string& socket, int fd) {
  RawClient client(socket);
  REQUIRE(is_invited(client));
  const auto answer = client.ask(ipc::Mapped{}, std::span(&fd, 1));
  REQUIRE(answer.has_value());
  const bool opened = std::holds_alternative<ipc::Opened>(*answer);
  CHECK((opened || std::holds_alternative<ipc::Refused>(*answer)));
  return opened;
}

TEST_CASE("memory that changes while the daemon takes it is refused or whole, and harms nobody") {
  TwoTenantDaemon daemon;
  RawClient first(daemon.red_socket());
  if (!is_invited(first)) {
    MESSAGE("skipped: this machine has swap, and the daemon may not lock memory here");
    return;
  }
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(1));
  int opened = 0;
  for (int attach = 0; attach < 100; ++attach) {
    const ipc::UniqueFd fd(::memfd_create("fought", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const auto bytes = ipc::session_bytes(kLanes);
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    auto mapping = ipc::Mapping::map(fd.get(), 0, bytes);
    REQUIRE(mapping.has_value());
    for (std::uint64_t at = 0; at < bytes; at += kPage) mapping->data()[at] = std::byte{1};
    const pid_t fighter = ::fork();
    REQUIRE(fighter >= 0);
    if (fighter == 0) fight(fd.get(), attach % 2 == 0);
    opened += brings(daemon.red_socket(), fd.get()) ? 1 : 0;
    ::kill(fighter, SIGKILL);
    CHECK(::waitpid(fighter, nullptr, 0) == fighter);
  }
  MESSAGE(opened << " of 100 were whole");
  CHECK(daemon.counter("control.session_memory.bytes") == 0);  // the victim brings its own
  CHECK(lets_in(daemon.red_socket()));
  CHECK(victim.does_rounds(3));
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
}

}  // namespace brought_memory
}  // namespace simm::siege
