// A client passes sockets whose last close hangs for as long as the client likes, on each way on
// which the daemon never asked for a descriptor.
#include <doctest/doctest.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/lingering_socket.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace lingering_sockets {

using test_support::eventually;
using test_support::LingeringSocket;
using test_support::RawClient;

// Descriptors whose closing waits for nobody.
std::vector<int> harmless(std::size_t count) {
  static const ipc::UniqueFd one(::eventfd(0, EFD_CLOEXEC));
  return std::vector<int>(count, one.get());
}

// A daemon that does nothing meanwhile: the last descriptor must be the one that it has.
class Frozen {
public:
  explicit Frozen(const TwoTenantDaemon& daemon) : daemon_(daemon) { daemon_.signal(SIGSTOP); }
  ~Frozen() { daemon_.signal(SIGCONT); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

private:
  const TwoTenantDaemon& daemon_;
};

// What the attacker does with the socket, and then it goes. False, with errno: it could not pass
// it.
using Attack = bool (*)(const TwoTenantDaemon& daemon, LingeringSocket& lingering);

bool hand_over(int socket, const std::vector<int>& others, LingeringSocket& lingering) {
  std::vector<int> fds = others;
  fds.push_back(lingering.fd());
  if (!RawClient::pass(socket, fds, 8)) return false;
  lingering.give_away();
  return true;
}

bool surplus_before_hello(const TwoTenantDaemon& daemon, LingeringSocket& lingering) {
  RawClient client(daemon.red_socket());
  const Frozen frozen(daemon);
  return hand_over(client.socket().fd(), harmless(ipc::kFdsPerMessageMax), lingering);
}

bool surplus_in_session(const TwoTenantDaemon& daemon, LingeringSocket& lingering) {
  RawClient client = RawClient::attached(daemon.red_socket());
  const Frozen frozen(daemon);
  return hand_over(client.socket().fd(), harmless(252), lingering);
}

// The first message ends the connection, so the second is never read.
bool unread_before_hello(const TwoTenantDaemon& daemon, LingeringSocket& lingering) {
  RawClient client(daemon.red_socket());
  const Frozen frozen(daemon);
  return RawClient::pass(client.socket().fd(), {}, 1) &&
         hand_over(client.socket().fd(), {}, lingering);
}

bool unread_in_session(const TwoTenantDaemon& daemon, LingeringSocket& lingering) {
  RawClient client = RawClient::attached(daemon.red_socket());
  const Frozen frozen(daemon);
  return client.send(ipc::Goodbye{}) && hand_over(client.socket().fd(), {}, lingering);
}

bool in_bell(const TwoTenantDaemon& daemon, LingeringSocket& lingering) {
  RawClient client = RawClient::attached(daemon.red_socket());
  {
    const Frozen frozen(daemon);
    if (!hand_over(client.bell().fd(), {}, lingering)) return false;
  }
  // A data agent that takes it does so before the session ends.
  (void)eventually([&] { return lingering.is_closing(); }, 1000);
  return true;
}

// The bell is not read any more after an empty message.
bool unread_in_bell(const TwoTenantDaemon& daemon, LingeringSocket& lingering) {
  RawClient client = RawClient::attached(daemon.red_socket());
  const Frozen frozen(daemon);
  return RawClient::pass(client.bell().fd(), {}, 0) && hand_over(client.bell().fd(), {}, lingering);
}

void nobody_waits(Attack attack) {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(1));
  REQUIRE(daemon.sessions_settled_to(1) == 1);
  const std::size_t descriptors = daemon.open_descriptors();

  LingeringSocket lingering;
  const bool is_passed = attack(daemon, lingering);
  if (!is_passed) CHECK(errno == EPERM);  // so says a kernel that keeps descriptors out of bells
  if (is_passed) {
    REQUIRE(eventually([&] { return lingering.is_closing(); }));
    // Somebody in the daemon hangs from here on, until release().
    CHECK(victim.does_rounds(3));
    CHECK(daemon.report("status")["sessions"].is_number());
    CHECK(lets_in(daemon.blue_socket()));
    CHECK(lets_in(daemon.red_socket()));
    // The other tenant's clients may need a closer, too.
    RawClient other = RawClient::attached(daemon.blue_socket());
    other.send_descriptors(harmless(5));
    CHECK(other.hung_up());
    CHECK(daemon.sessions_settled_to(2) == 2);  // the victim's and the one that hangs
    CHECK(victim.does_rounds(1));
  }
  lingering.release();
  CHECK(daemon.sessions_settled_to(1) == 1);
  CHECK(eventually([&] { return daemon.open_descriptors() <= descriptors; }));
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
}

TEST_CASE("nobody waits for a lingering socket among too many descriptors of an attach message") {
  SUBCASE("before Hello") {
    nobody_waits(surplus_before_hello);
  }
  SUBCASE("in a session") {
    nobody_waits(surplus_in_session);
  }
}

TEST_CASE("nobody waits for a lingering socket in a message that is never read") {
  SUBCASE("before Hello") {
    nobody_waits(unread_before_hello);
  }
  SUBCASE("in a session") {
    nobody_waits(unread_in_session);
  }
}

TEST_CASE("nobody waits for a lingering socket in a message to the bell") {
  SUBCASE("that is read") {
    nobody_waits(in_bell);
  }
  SUBCASE("that is never read") {
    nobody_waits(unread_in_bell);
  }
}

}  // namespace lingering_sockets
}  // namespace simm::siege
