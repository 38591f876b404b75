// TcpRelay: two real TCP connections over loopback and, between them, a middle that the test moves
// by hand: what one end sent reaches the other only by pump(). It keeps what it was given, so it is
// a network with room for everything; it can hold back one direction, cut or reset the connection.
//
// pump() returns when the kernel has nothing under way any more: all that was sent has arrived. So
// a test that takes turns by hand sees the same on a busy machine as on an idle one.
// Thread: one at a time.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ipc/fd.h"
#include "simm/check.h"

namespace support {

using simm::ipc::UniqueFd;

// Two ends of a TCP connection over 127.0.0.1, not blocking.
inline void tcp_pair(UniqueFd& left, UniqueFd& right) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  SIMM_CHECK(::bind(listener.get(), generic, length) == 0);
  SIMM_CHECK(::listen(listener.get(), 1) == 0);
  SIMM_CHECK(::getsockname(listener.get(), generic, &length) == 0);
  left = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SIMM_CHECK(::connect(left.get(), generic, length) == 0);
  right = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  SIMM_CHECK(right.valid());
  for (const int fd : {left.get(), right.get()}) {
    const int on = 1;
    SIMM_CHECK(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    SIMM_CHECK(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
  }
}

class TcpRelay {
public:
  TcpRelay() {
    tcp_pair(left_end_, to_left_.inner);
    tcp_pair(right_end_, to_right_.inner);
    to_left_.outer = UniqueFd(::dup(left_end_.get()));
    to_right_.outer = UniqueFd(::dup(right_end_.get()));
  }

  // The two ends, once each.
  UniqueFd take_left() { return std::move(left_end_); }
  UniqueFd take_right() { return std::move(right_end_); }

  // How many bytes may still go to that end; more of them wait in the middle.
  void limit_to_left(std::uint64_t bytes) { to_left_.allowed = bytes; }
  void limit_to_right(std::uint64_t bytes) { to_right_.allowed = bytes; }
  void open() { to_left_.allowed = to_right_.allowed = ~std::uint64_t{0}; }
  [[nodiscard]] std::uint64_t bytes_to_left() const { return to_left_.written; }
  [[nodiscard]] std::uint64_t bytes_to_right() const { return to_right_.written; }
  [[nodiscard]] std::size_t held_for_left() const { return to_left_.held(); }

  // Moves what can be moved, both ways or one; how many bytes that was.
  int pump() { return pump_to_left() + pump_to_right(); }
  int pump_to_left() {
    const std::uint64_t taken = take(to_right_, to_left_);
    return static_cast<int>(taken + give(to_left_));
  }
  int pump_to_right() {
    const std::uint64_t taken = take(to_left_, to_right_);
    return static_cast<int>(taken + give(to_right_));
  }
  // What left the right end into the middle, and no further.
  int take_from_right() { return static_cast<int>(take(to_right_, to_left_)); }

  // Takes no more than this from the left end, and gives nothing on: a slow path.
  void take_slowly_from_left(std::size_t bytes) {
    std::vector<std::byte> buffer(bytes);
    const ssize_t got = ::recv(to_left_.inner.get(), buffer.data(), bytes, MSG_DONTWAIT);
    if (got > 0)
      to_right_.bytes.insert(to_right_.bytes.end(), buffer.begin(), buffer.begin() + got);
  }

  // Bytes that the kernel of the middle has from the left end, read or not.
  [[nodiscard]] std::uint64_t arrived_from_left() const {
    tcp_info info;
    return state(to_left_.inner.get(), info) ? info.tcpi_bytes_received : 0;
  }

  // Somebody on the way adds bytes to what goes to the right end.
  void insert_to_right(const std::vector<std::byte>& bytes) {
    to_right_.bytes.insert(to_right_.bytes.end(), bytes.begin(), bytes.end());
  }

  // Both connections end, at once and without a word more.
  void cut() {
    ::shutdown(to_left_.inner.get(), SHUT_RDWR);
    ::shutdown(to_right_.inner.get(), SHUT_RDWR);
  }
  // Both connections are reset; returns when both ends have been told.
  void reset() {
    for (Way* way : {&to_left_, &to_right_}) {
      const linger at_once{1, 0};
      SIMM_CHECK(::setsockopt(way->inner.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) ==
                 0);
      way->inner.reset();
      tcp_info end;
      while (state(way->outer.get(), end)) ::sched_yield();
    }
  }

private:
  struct Way {
    UniqueFd inner;  // our end of the connection
    UniqueFd outer;  // the other end of it, only asked about its state
    std::vector<std::byte> bytes;
    std::size_t first = 0;
    std::uint64_t written = 0;
    std::uint64_t allowed = ~std::uint64_t{0};
    bool is_over = false;  // the source said that nothing more comes
    bool is_shut = false;
    [[nodiscard]] std::size_t held() const { return bytes.size() - first; }
  };

  static bool state(int fd, tcp_info& info) {
    socklen_t length = sizeof info;
    std::memset(&info, 0, sizeof info);
    constexpr int kEstablished = 1;
    return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           info.tcpi_state == kEstablished;
  }

  // Something that `from` was given has not arrived in `to`'s queue.
  static bool is_on_its_way(int from, int to) {
    tcp_info sender;
    tcp_info receiver;
    if (!state(from, sender) || !state(to, receiver)) return false;
    return sender.tcpi_notsent_bytes > 0 ||
           sender.tcpi_bytes_sent - sender.tcpi_bytes_retrans > receiver.tcpi_bytes_received;
  }

  // From the end behind `source` into the middle, on its way to the end behind `way`.
  static std::uint64_t take(Way& source, Way& way) {
    std::uint64_t taken = 0;
    std::array<std::byte, 65536> buffer;
    while (!way.is_over) {
      const bool more = is_on_its_way(source.outer.get(), source.inner.get());
      const ssize_t got = ::recv(source.inner.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN && more) {
        ::sched_yield();
        continue;
      }
      if (got < 0 && errno == EAGAIN) break;
      if (got <= 0) {
        way.is_over = true;
        break;
      }
      way.bytes.insert(way.bytes.end(), buffer.begin(), buffer.begin() + got);
      taken += static_cast<std::uint64_t>(got);
    }
    return taken;
  }

  // Never more than the end's window: what was written has arrived when this returns.
  static std::uint64_t give(Way& way) {
    constexpr std::size_t kUnreadMax = 65536;
    int unread = 0;
    if (::ioctl(way.outer.get(), FIONREAD, &unread) != 0) return 0;
    const std::size_t unread_bytes = static_cast<std::size_t>(unread);
    std::size_t room = unread_bytes < kUnreadMax ? kUnreadMax - unread_bytes : 0;
    room = std::min<std::size_t>({room, way.held(), way.allowed});
    if (room == 0) {
      if (way.is_over && way.held() == 0 && !way.is_shut) {
        way.is_shut = true;
        ::shutdown(way.inner.get(), SHUT_WR);
      }
      return 0;
    }
    const ssize_t sent =
        ::send(way.inner.get(), way.bytes.data() + way.first, room, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent <= 0) return 0;
    way.first += static_cast<std::size_t>(sent);
    way.written += static_cast<std::uint64_t>(sent);
    if (way.allowed != ~std::uint64_t{0}) way.allowed -= static_cast<std::uint64_t>(sent);
    if (way.first == way.bytes.size()) {
      way.bytes.clear();
      way.first = 0;
    }
    while (is_on_its_way(way.inner.get(), way.outer.get())) ::sched_yield();
    return static_cast<std::uint64_t>(sent);
  }

  UniqueFd left_end_;
  UniqueFd right_end_;
  Way to_left_;
  Way to_right_;
};

}  // namespace support
