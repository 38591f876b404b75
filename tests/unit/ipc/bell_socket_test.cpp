#include "ipc/bell_socket.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

namespace bell_socket_test {

bool is_readable(const simm::ipc::BellSocket& bell) {
  pollfd item{bell.fd(), POLLIN, 0};
  return ::poll(&item, 1, 0) == 1;
}

}  // namespace bell_socket_test

using bell_socket_test::is_readable;
using simm::ipc::BellSocket;

TEST_CASE("a bell rings in both directions and is silent once drained") {
  auto pair = BellSocket::make_pair();
  REQUIRE(pair);
  auto& [a, b] = *pair;
  CHECK_FALSE(is_readable(a));
  REQUIRE(a.ring());
  REQUIRE(b.ring());
  CHECK(is_readable(a));
  CHECK(is_readable(b));
  CHECK(a.drain());
  CHECK_FALSE(is_readable(a));
  CHECK(is_readable(b));
  CHECK(b.drain());
  CHECK(b.drain());
}

TEST_CASE("a reader written for an eventfd works on a bell") {
  auto pair = BellSocket::make_pair();
  REQUIRE(pair);
  REQUIRE(pair->first.ring());
  eventfd_t value = 0;
  REQUIRE(::eventfd_read(pair->second.fd(), &value) == 0);
  CHECK(value == 1);
}

TEST_CASE("a flood neither blocks the sender nor keeps the reader in one call") {
  auto pair = BellSocket::make_pair();
  REQUIRE(pair);
  // The peer can clear O_NONBLOCK of its own end only; ours takes no flag from anybody.
  REQUIRE(::fcntl(pair->second.fd(), F_SETFL, 0) == 0);
  for (int i = 0; i < 10'000; ++i) REQUIRE(pair->first.ring());
  CHECK(pair->second.drain());
  CHECK(is_readable(pair->second));  // bounded: the rest waits for the next turn
  for (int i = 0; i < 10'000 && is_readable(pair->second); ++i) REQUIRE(pair->second.drain());
  CHECK_FALSE(is_readable(pair->second));
}

TEST_CASE("a closed peer is told apart from an empty bell") {
  auto pair = BellSocket::make_pair();
  REQUIRE(pair);
  { const BellSocket gone = std::move(pair->second); }
  CHECK_FALSE(pair->first.ring());
  CHECK_FALSE(pair->first.drain());
}
