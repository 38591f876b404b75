#include "ipc/bell_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "ipc/passed_descriptors.h"

namespace simm::ipc {

BellSocket::~BellSocket() {
  if (fd_ >= 0) ::close(fd_);
}

Expected<std::pair<BellSocket, BellSocket>> BellSocket::make_pair(BellGuard guard) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error("socketpair for a session's bell", errno);
  }
  const bool asks_kernel = guard == BellGuard::kernel;
  const auto looks_first = [&](int end) { return !(asks_kernel && refuse_descriptors(end)); };
  return std::pair<BellSocket, BellSocket>(BellSocket(ends[0], looks_first(ends[0])),
                                           BellSocket(ends[1], looks_first(ends[1])));
}

bool BellSocket::ring() const noexcept {
  const std::uint64_t one = 1;
  for (;;) {
    if (::send(fd_, &one, sizeof one, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    if (errno == EINTR) continue;
    // ENOBUFS: the kernel is short of memory; the next completion or the client's timeout helps.
    return errno == EAGAIN || errno == ENOBUFS;
  }
}

bool BellSocket::drain() const noexcept {
  std::uint64_t ignored = 0;
  for (int taken = 0; taken < kDrainMax; ++taken) {
    if (looks_first_) {
      const Head head = look_at_head(fd_);
      // Nothing is taken unseen: a message with descriptors may have come since.
      if (head != Head::plain) return head == Head::nothing;
    }
    const ssize_t got = ::recv(fd_, &ignored, sizeof ignored, MSG_DONTWAIT | MSG_TRUNC);
    if (got > 0) continue;
    if (got == 0) return false;  // end of file; a client that sends empty messages fools itself
    if (errno != EINTR) return errno == EAGAIN;
  }
  return true;
}

bool BellSocket::shut() const noexcept {
  return fd_ < 0 || shut_without_descriptors(fd_);
}

}  // namespace simm::ipc
