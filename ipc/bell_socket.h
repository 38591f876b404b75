// BellSocket: one end of the socket pair that carries wake-ups of a session, in both directions. A
// message is eight bytes, the u64 value 1, so a reader written for an eventfd works on it. It says
// only "look again": messages may be merged, nonsense, or lost to a full queue that the reader has
// yet to drain. Nothing is ever decided by their content.
//
// Why no eventfd: its O_NONBLOCK flag lives in the open file description that both processes share.
// A hostile client could clear it and make the daemon's write() block on a full counter. A socket
// takes MSG_DONTWAIT with each call.
//
// Why it carries no descriptors: the last close of one may take as long as a hostile client likes
// (ipc/passed_descriptors.h). Where the kernel can, it refuses them. Elsewhere the daemon's end
// looks at each message first, and takes no more once it has seen one with descriptors.
//
// Owns its file descriptor. Thread: any (each call is one system call).
#pragma once

#include <cstdint>
#include <utility>

#include "simm/expected.h"

namespace simm::ipc {

// Who keeps descriptors out of a pair.
enum class BellGuard : std::uint8_t {
  kernel,  // the kernel, or the reader where the kernel does not know how
  reader,  // the reader alone, as before Linux 6.16
};

class BellSocket {
public:
  // Takes ownership of a connected SOCK_SEQPACKET socket, whose other end is trusted; -1 is "none".
  explicit BellSocket(int fd) noexcept : fd_(fd) {}
  ~BellSocket();
  BellSocket(BellSocket&& other) noexcept
      : looks_first_(other.looks_first_), fd_(other.release()) {}
  BellSocket& operator=(BellSocket&& other) noexcept {
    std::swap(looks_first_, other.looks_first_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  BellSocket(const BellSocket&) = delete;
  BellSocket& operator=(const BellSocket&) = delete;

  // Both ends of a new pair, close-on-exec. Neither trusts the other.
  static Expected<std::pair<BellSocket, BellSocket>> make_pair(BellGuard guard = BellGuard::kernel);

  // Sends one message. Never blocks, never raises SIGPIPE. False when the peer is gone. A full
  // queue is success: the reader then has messages that it has not looked at.
  bool ring() const noexcept;

  // Takes waiting messages, at most kDrainMax so that a flood costs a bounded time per call (the
  // descriptor then stays readable). False when the peer has closed its end, or has sent
  // descriptors. The bell is of no use then, and must not be watched any more.
  bool drain() const noexcept;
  static constexpr int kDrainMax = 16;

  // The peer sees a hang-up. True: closing the bell drops no descriptors of the peer, so it returns
  // at once.
  bool shut() const noexcept;

  // For poll and epoll (readable: drain, then look at the rings), and for handing it over.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

private:
  BellSocket(int fd, bool looks_first) noexcept : looks_first_(looks_first), fd_(fd) {}

  bool looks_first_ = false;  // descriptors may come: take no message that has any
  int fd_;
};

}  // namespace simm::ipc
