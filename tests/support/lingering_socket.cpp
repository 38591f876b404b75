#include "tests/support/lingering_socket.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace simm::test_support {

LingeringSocket::LingeringSocket() {
  const ipc::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener.get(), any, size) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), any, &size) == 0);
  fd_ = ipc::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(fd_.get(), any, size) == 0);
  peer_ = ipc::UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(peer_.valid());
  REQUIRE(::getsockname(fd_.get(), any, &size) == 0);
  port_ = ntohs(address.sin_port);
  const linger an_hour{1, 3600};
  REQUIRE(::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &an_hour, sizeof an_hour) == 0);
  const std::vector<char> bytes(1 << 16);
  while (::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
}

bool LingeringSocket::is_closing() const {
  constexpr unsigned kEstablished = 1;
  std::ifstream connections("/proc/self/net/tcp");
  std::string line;
  while (std::getline(connections, line)) {
    unsigned local = 0;
    unsigned state = 0;
    const int fields = std::sscanf(line.c_str(), " %*u: %*8x:%4x %*8x:%*4x %2x", &local, &state);
    if (fields == 2 && local == port_) return state != kEstablished;
  }
  return true;
}

}  // namespace simm::test_support
