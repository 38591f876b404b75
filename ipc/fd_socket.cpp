#include "ipc/fd_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "ipc/passed_descriptors.h"
#include "ipc/unix_address.h"
#include "simm/check.h"

namespace simm::ipc {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Room for kFdsPerMessageMax descriptors and nothing else: what does not fit sets MSG_CTRUNC.
struct alignas(cmsghdr) ControlBuffer {
  std::byte bytes[CMSG_SPACE(kFdsPerMessageMax * sizeof(int))];
};

SocketResult classify(int errno_value) noexcept {
  switch (errno_value) {
    case EAGAIN:
      return SocketResult::would_block;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return SocketResult::hung_up;
    case EMSGSIZE:
      return SocketResult::too_long;
    default:
      return SocketResult::failed;
  }
}

// Takes ownership of every descriptor that the kernel installed for this message.
void take_fds(msghdr& header, Received& received) noexcept {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      // SAFETY: the kernel wrote cmsg_len, and i is below the count of whole ints in it.
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      UniqueFd owned(fd);
      if (received.fd_count < kFdsPerMessageMax) {
        received.fds[received.fd_count++] = std::move(owned);
      }
    }
  }
}

void refuse(Received& received, SocketResult why) noexcept {
  received.result = why;
  received.bytes = 0;
}

// Waits until `fd` is ready for `events` or the deadline has passed; false when it passed.
bool wait_until(int fd, short events, SteadyClock::time_point deadline) noexcept {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
    pollfd entry{fd, events, 0};
    const auto wait_ms = std::clamp<std::int64_t>(left.count(), 0, 3'600'000);
    const int ready = ::poll(&entry, 1, static_cast<int>(wait_ms));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the call that follows reports the error
    if (ready == 0 && SteadyClock::now() >= deadline) return false;
  }
}

// Takes the first message away. Its descriptors are in this process already, so none is the last.
void take_message(int socket) noexcept {
  msghdr nothing{};
  while (::recvmsg(socket, &nothing, MSG_DONTWAIT) < 0 && errno == EINTR) {
  }
}

SteadyClock::time_point deadline_after(std::uint64_t timeout_ns) noexcept {
  constexpr std::uint64_t kMost = 3'600ull * 1'000'000'000ull;
  return SteadyClock::now() + std::chrono::nanoseconds(std::min(timeout_ns, kMost));
}

}  // namespace

const char* socket_result_name(SocketResult result) noexcept {
  switch (result) {
    case SocketResult::done:
      return "done";
    case SocketResult::would_block:
      return "would_block";
    case SocketResult::hung_up:
      return "hung_up";
    case SocketResult::too_long:
      return "too_long";
    case SocketResult::too_many_fds:
      return "too_many_fds";
    case SocketResult::failed:
      return "failed";
  }
  return "unknown";
}

Expected<FdSocket> FdSocket::connect(const std::string& path, std::uint64_t timeout_ns) {
  Expected<UnixAddress> address = UnixAddress::of(path);
  if (!address) return std::move(address).error();
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("socket", errno);
  // connect() to a full queue waits as long as the send timeout says; 0 would mean for ever.
  const std::uint64_t wait_us = std::max<std::uint64_t>(timeout_ns / 1000, 1);
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(std::min<std::uint64_t>(wait_us / 1'000'000, 3600));
  limit.tv_usec = static_cast<suseconds_t>(wait_us % 1'000'000);
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) {
    return system_error("SO_SNDTIMEO", errno);
  }
  if (::connect(fd.get(), address->get(), address->length()) != 0) {
    const int why = errno;
    Error error = system_error("connect to " + path, why);
    if (why == ENOENT || why == ECONNREFUSED) error.status = Status::unreachable;
    if (why == EACCES || why == EPERM) error.status = Status::permission_denied;
    if (why == EAGAIN || why == EINTR) error.status = Status::timeout;
    return error;
  }
  return FdSocket(std::move(fd));
}

Expected<std::pair<FdSocket, FdSocket>> FdSocket::pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return system_error("socketpair", errno);
  }
  return std::pair{FdSocket(UniqueFd(fds[0])), FdSocket(UniqueFd(fds[1]))};
}

SocketResult FdSocket::try_send(std::span<const std::byte> message,
                                std::span<const int> fds) noexcept {
  SIMM_CHECK(!message.empty() && fds.size() <= kFdsPerMessageMax);
  // SAFETY: sendmsg only reads; iovec has no const form.
  iovec data{const_cast<std::byte*>(message.data()), message.size()};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0 ? SocketResult::done : classify(errno);
}

SocketResult FdSocket::send(std::span<const std::byte> message, std::span<const int> fds,
                            std::uint64_t timeout_ns) noexcept {
  const auto deadline = deadline_after(timeout_ns);
  for (;;) {
    const SocketResult result = try_send(message, fds);
    if (result != SocketResult::would_block) return result;
    if (!wait_until(fd_.get(), POLLOUT, deadline)) return SocketResult::would_block;
  }
}

Received FdSocket::try_receive(std::span<std::byte> buffer) noexcept {
  Received received;
  ControlBuffer control{};
  iovec data{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof control.bytes;
  ssize_t count = 0;
  do {
    count = ::recvmsg(fd_.get(), &header, MSG_PEEK | MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    received.errno_value = errno;
    received.result = classify(errno);
    return received;
  }
  take_fds(header, received);
  received.result = SocketResult::done;
  received.bytes = static_cast<std::size_t>(count);
  // An empty message is told from a hang-up by nothing but its descriptors: refused alike.
  if (count == 0) refuse(received, SocketResult::hung_up);
  if ((header.msg_flags & MSG_TRUNC) != 0) refuse(received, SocketResult::too_long);
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    refuse(received, SocketResult::too_many_fds);
  } else {
    take_message(fd_.get());
  }
  return received;
}

bool FdSocket::shut() noexcept {
  return !fd_.valid() || shut_without_descriptors(fd_.get());
}

Received FdSocket::receive(std::span<std::byte> buffer, std::uint64_t timeout_ns) noexcept {
  const auto deadline = deadline_after(timeout_ns);
  for (;;) {
    Received received = try_receive(buffer);
    if (received.result != SocketResult::would_block) return received;
    if (!wait_until(fd_.get(), POLLIN, deadline)) return received;
  }
}

}  // namespace simm::ipc
