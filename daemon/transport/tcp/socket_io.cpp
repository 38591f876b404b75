#include "daemon/transport/tcp/socket_io.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

namespace simm::transport {

// Small frames leave at once; a peer whose machine died without a word is noticed on a connection
// that nobody uses, too. All fail on sockets that are not TCP, where none is needed.
bool SocketIo::set_up(IoSocket& socket) noexcept {
  const int descriptor = socket.descriptor;
  const auto set = [descriptor](int level, int name, int value) {
    [[maybe_unused]] const int result = ::setsockopt(descriptor, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  const bool is_bound = socket.unsent_bytes_max > 0 && uncopied_sends() != UncopiedSends::always;
  if (is_bound) set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, socket.unsent_bytes_max);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0;
}

void SocketIo::lift_unsent_bound(const IoSocket& socket) noexcept {
  if (socket.unsent_bytes_max == 0) return;
  constexpr int kWhatItLikes = -1;
  [[maybe_unused]] const int result = ::setsockopt(
      socket.descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kWhatItLikes, sizeof kWhatItLikes);
}

void SocketIo::shut_down(IoSocket& socket) noexcept {
  ::shutdown(socket.descriptor, SHUT_RDWR);
  if (socket.sends_held == 0) return;
  // Throws away what the socket has not sent or the peer has not acknowledged.
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  [[maybe_unused]] const int result = ::connect(socket.descriptor, &nobody, sizeof nobody);
}

std::uint64_t SocketIo::unacknowledged_bytes(const IoSocket& socket) const noexcept {
  int queued = 0;
  const bool is_known = ::ioctl(socket.descriptor, SIOCOUTQ, &queued) == 0 && queued >= 0;
  return is_known ? static_cast<std::uint64_t>(queued) : ~std::uint64_t{0};
}

}  // namespace simm::transport
