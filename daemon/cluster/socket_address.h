// SocketAddress: an IPv4 or IPv6 address and a port, numeric: "10.0.0.7:30001", "[::1]:30001". A
// plain value; no name is looked up here. Thread: any.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/cluster/hello/secret.h"

namespace simm::cluster {

class SocketAddress {
public:
  // Empty when it is no numeric address with a port of 0..65535.
  static std::optional<SocketAddress> parse(std::string_view text);
  // What the kernel filled in; empty when it is neither IPv4 nor IPv6.
  static std::optional<SocketAddress> from(const sockaddr_storage& storage);

  [[nodiscard]] const sockaddr* raw() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  [[nodiscard]] socklen_t raw_bytes() const noexcept {
    return is_v4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  }
  [[nodiscard]] bool is_v4() const noexcept { return storage_.ss_family == AF_INET; }
  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const noexcept;
  // 127.0.0.0/8, ::1, and the former written as IPv6. Not "any address".
  [[nodiscard]] bool is_loopback() const noexcept;
  // As parse() takes it.
  [[nodiscard]] std::string text() const;

private:
  SocketAddress() = default;
  [[nodiscard]] const sockaddr_in& v4() const noexcept {
    return reinterpret_cast<const sockaddr_in&>(storage_);
  }
  [[nodiscard]] const sockaddr_in6& v6() const noexcept {
    return reinterpret_cast<const sockaddr_in6&>(storage_);
  }

  sockaddr_storage storage_{};
};

// "host:port" cut in two, the host without brackets: for addresses with a name in them. Empty when
// there is no port, or something besides digits in it.
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
};
std::optional<HostAndPort> split_host_port(std::string_view text);

// Without a secret nobody can prove anything, so only this machine may be talked to. `key` is the
// configuration key that holds the address, for the words of the error.
Outcome check_reach(const SocketAddress& address, const ClusterSecret& secret,
                    std::string_view key);

}  // namespace simm::cluster
