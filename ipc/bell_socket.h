// BellSocket: one end of the socket pair that carries wake-ups of a session, in both directions. A
// message is eight bytes, the u64 value 1, so a reader written for an eventfd works on it. It says
// only "look again": messages may be merged, lost to a full queue that the reader has yet to drain,
// or be nonsense, and nothing is ever decided by their content.
//
// Why no eventfd: its O_NONBLOCK flag lives in the open file description that both processes share,
// so a hostile client could clear it and make the daemon's write() block on a full counter. A
// socket takes MSG_DONTWAIT with each call.
//
// Owns its file descriptor. Thread: any (each call is one system call).
#pragma once

#include <utility>

#include "simm/expected.h"

namespace simm::ipc {

class BellSocket {
public:
  // Takes ownership of a connected SOCK_SEQPACKET socket; -1 is "none".
  explicit BellSocket(int fd) noexcept : fd_(fd) {}
  ~BellSocket();
  BellSocket(BellSocket&& other) noexcept : fd_(other.release()) {}
  BellSocket& operator=(BellSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  BellSocket(const BellSocket&) = delete;
  BellSocket& operator=(const BellSocket&) = delete;

  // Both ends of a new pair, close-on-exec.
  static Expected<std::pair<BellSocket, BellSocket>> make_pair();

  // Sends one message. Never blocks, never raises SIGPIPE. False when the peer is gone; a full
  // queue is success, because the reader then has messages that it has not looked at.
  bool ring() const noexcept;

  // Takes waiting messages, at most kDrainMax so that a flood costs a bounded time per call (the
  // descriptor then stays readable). False when the peer has closed its end.
  bool drain() const noexcept;
  static constexpr int kDrainMax = 16;

  // For poll and epoll (readable: drain, then look at the rings), and for handing it over.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

private:
  int fd_;
};

}  // namespace simm::ipc
