#include "daemon/peers/tcp_socket.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

namespace simm::control {
namespace {

constexpr int kKeepIdleSeconds = 5;
constexpr int kKeepIntervalSeconds = 2;
constexpr int kKeepProbes = 3;
// A receiver acknowledges every second full segment at once, and a new connection's window is 64
// KiB. Loopback has segments of as much, so its acknowledgements were 40 ms late and more.
constexpr int kSegmentBytesMax = 16 * 1024;

bool set_option(int socket, int level, int option, int value) noexcept {
  return ::setsockopt(socket, level, option, &value, sizeof(value)) == 0;
}

// Small messages leave at once, and a peer that vanished without a word is noticed.
bool tune(int socket) noexcept {
  return set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1) &&
         set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1) &&
         set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds) &&
         set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds) &&
         set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepProbes) &&
         set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kTcpDeadAfterMs);
}

TcpMoved moved(ssize_t bytes, bool zero_is_end) noexcept {
  if (bytes > 0) return {TcpResult::moved, static_cast<std::size_t>(bytes), 0};
  if (bytes == 0) return {zero_is_end ? TcpResult::hung_up : TcpResult::would_block, 0, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  return {TcpResult::hung_up, 0, errno};
}

}  // namespace

Expected<ipc::UniqueFd> listen_tcp(const cluster::SocketAddress& address, int backlog) {
  ipc::UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // A restarted daemon takes its port again while old connections are still in TIME_WAIT.
  if (!socket || !set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1) ||
      !set_option(socket.get(), IPPROTO_TCP, TCP_MAXSEG, kSegmentBytesMax) ||
      ::bind(socket.get(), address.raw(), address.raw_bytes()) != 0 ||
      ::listen(socket.get(), backlog) != 0) {
    return system_error("listening on " + address.text(), errno);
  }
  return socket;
}

Expected<cluster::SocketAddress> bound_address(int socket) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) {
    return system_error("getsockname", errno);
  }
  auto address = cluster::SocketAddress::from(storage);
  if (!address) return Error{Status::io_error, "getsockname: no internet address"};
  return *address;
}

Expected<std::optional<AcceptedTcp>> accept_tcp(int listening) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);
  ipc::UniqueFd socket(::accept4(listening, reinterpret_cast<sockaddr*>(&storage), &bytes,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    // Linux hands pending errors of the new connection to accept: those are the peer's business.
    constexpr std::array<int, 4> kOurs = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    for (const int ours : kOurs) {
      if (errno == ours) return system_error("accept", errno);
    }
    return std::optional<AcceptedTcp>();
  }
  auto peer = cluster::SocketAddress::from(storage);
  if (!peer || !tune(socket.get())) return std::optional<AcceptedTcp>();
  return std::optional<AcceptedTcp>(AcceptedTcp{std::move(socket), *peer});
}

Expected<ipc::UniqueFd> start_connect(const cluster::SocketAddress& address) {
  ipc::UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket || !tune(socket.get()) ||
      !set_option(socket.get(), IPPROTO_TCP, TCP_MAXSEG, kSegmentBytesMax)) {
    return system_error("a socket for " + address.text(), errno);
  }
  if (::connect(socket.get(), address.raw(), address.raw_bytes()) != 0 && errno != EINPROGRESS) {
    return Error{Status::unreachable, system_error(address.text(), errno).context};
  }
  return socket;
}

Outcome connect_result(int socket) {
  int failed = 0;
  socklen_t bytes = sizeof(failed);
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failed, &bytes) != 0) failed = errno;
  if (failed != 0) return Error{Status::unreachable, system_error("connect", failed).context};
  return Done{};
}

TcpMoved receive_tcp(int socket, std::span<std::byte> into) noexcept {
  return moved(::recv(socket, into.data(), into.size(), MSG_DONTWAIT), true);
}

TcpMoved send_tcp(int socket, std::span<const std::byte> from) noexcept {
  return moved(::send(socket, from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL), false);
}

}  // namespace simm::control
