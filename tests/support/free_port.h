// A TCP port of loopback that is free now, and that no outgoing connection will take: below the
// ports that the kernel gives to those. For servers that have to come back at the same port.
// Thread: the test's.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <fstream>
#include <random>

#include "ipc/fd.h"

namespace simm::test_support {

inline std::uint16_t free_port() {
  constexpr std::uint32_t kLeast = 10'000;
  std::uint32_t first_outgoing = 32'768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first_outgoing;
  REQUIRE(first_outgoing > kLeast + 1000);
  std::random_device random;
  while (true) {
    const auto port = static_cast<std::uint16_t>(kLeast + random() % (first_outgoing - kLeast));
    const ipc::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      return port;
    }
  }
}

}  // namespace simm::test_support
