#include "daemon/cluster/socket_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace simm::cluster {
namespace {

bool is_v4_loopback(const std::uint8_t* address) noexcept {
  return address[0] == 127;
}

}  // namespace

std::optional<HostAndPort> split_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return std::nullopt;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;  // an IPv6 address needs its brackets, or its end looks like a port
  }
  HostAndPort split{std::string(host), 0};
  const auto [end, failed] =
      std::from_chars(digits.data(), digits.data() + digits.size(), split.port);
  if (failed != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return split;
}

std::optional<SocketAddress> SocketAddress::parse(std::string_view text) {
  const auto split = split_host_port(text);
  if (!split) return std::nullopt;
  SocketAddress address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage_);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage_);
  if (text.front() != '[' && ::inet_pton(AF_INET, split->host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(split->port);
    return address;
  }
  if (text.front() == '[' && ::inet_pton(AF_INET6, split->host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(split->port);
    return address;
  }
  return std::nullopt;
}

std::optional<SocketAddress> SocketAddress::from(const sockaddr_storage& storage) {
  if (storage.ss_family != AF_INET && storage.ss_family != AF_INET6) return std::nullopt;
  SocketAddress address;
  address.storage_ = storage;
  return address;
}

std::uint16_t SocketAddress::port() const noexcept {
  return ntohs(is_v4() ? v4().sin_port : v6().sin6_port);
}

bool SocketAddress::is_loopback() const noexcept {
  if (is_v4()) return is_v4_loopback(reinterpret_cast<const std::uint8_t*>(&v4().sin_addr));
  const in6_addr& address = v6().sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) ||
         (IN6_IS_ADDR_V4MAPPED(&address) && is_v4_loopback(&address.s6_addr[12]));
}

std::string SocketAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> host{};
  const void* address = is_v4() ? static_cast<const void*>(&v4().sin_addr) : &v6().sin6_addr;
  ::inet_ntop(family(), address, host.data(), host.size());
  const std::string port_text = std::to_string(port());
  return is_v4() ? std::string(host.data()) + ":" + port_text
                 : "[" + std::string(host.data()) + "]:" + port_text;
}

Outcome check_reach(const SocketAddress& address, const ClusterSecret& secret,
                    std::string_view key) {
  if (secret.is_secret() || address.is_loopback()) return Done{};
  return Error{Status::permission_denied,
               std::string(key) + ": " + address.text() +
                   " can be reached from other machines, and without a secret nobody can prove who "
                   "he is; set cluster.secret_file, or use a loopback address (127.0.0.1)"};
}

}  // namespace simm::cluster
