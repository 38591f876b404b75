// FdSocket: one end of a connected SOCK_SEQPACKET Unix socket: whole messages, each with up to four
// file descriptors.
//
// Everything that arrives is a claim of the other side. The control buffer has room for exactly
// kFdsPerMessageMax descriptors. A message with more is an error, and so is one longer than the
// caller's buffer. Received descriptors are close-on-exec. The empty message does not exist in our
// protocols: it reads as a hang-up.
//
// No call here closes the last descriptor of anything that the other side sent, because that may
// take as long as it likes (ipc/passed_descriptors.h). Each message is looked at before it is
// taken. One with more descriptors than there is room for, in the buffer or in this process, stays
// where it lies, and shut() says so.
//
// Thread: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::ipc {

inline constexpr std::size_t kFdsPerMessageMax = 4;

enum class SocketResult : std::uint8_t {
  done,
  would_block,   // nothing there, or no room; with a time limit: it passed
  hung_up,       // the other side closed or died
  too_long,      // receive: longer than the buffer; send: longer than the kernel takes
  too_many_fds,  // receive: more than kFdsPerMessageMax, or than this process may open; stays
  failed,        // any other errno, see `errno_value`
};
const char* socket_result_name(SocketResult result) noexcept;

// What came. A message that is refused has no bytes, but its descriptors are here all the same.
// Closing one may take as long as the file system behind it likes, so the caller decides where.
struct Received {
  SocketResult result = SocketResult::failed;
  int errno_value = 0;    // for `failed`
  std::size_t bytes = 0;  // of the message; > 0 when done
  std::size_t fd_count = 0;
  std::array<UniqueFd, kFdsPerMessageMax> fds;
};

class FdSocket {
public:
  FdSocket() noexcept = default;
  // `fd` must be a SEQPACKET socket; anything else fails at the first call, with `failed`.
  explicit FdSocket(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  // Connects to a listening socket. Waits up to `timeout_ns` while the listener's queue is full:
  // timeout. unreachable when nobody listens or the file is not there.
  static Expected<FdSocket> connect(const std::string& path, std::uint64_t timeout_ns);
  // Two connected ends, close-on-exec.
  static Expected<std::pair<FdSocket, FdSocket>> pair();

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] bool valid() const noexcept { return fd_.valid(); }
  [[nodiscard]] UniqueFd release() noexcept { return std::move(fd_); }
  void close() noexcept { fd_.reset(); }
  // The other side sees a hang-up. True: closing the socket drops no descriptors of the other side,
  // so it returns at once.
  [[nodiscard]] bool shut() noexcept;

  // Sends one message with `fds` (at most kFdsPerMessageMax; they stay the caller's).
  SocketResult try_send(std::span<const std::byte> message, std::span<const int> fds = {}) noexcept;
  SocketResult send(std::span<const std::byte> message, std::span<const int> fds,
                    std::uint64_t timeout_ns) noexcept;

  // Receives one message into `buffer`.
  Received try_receive(std::span<std::byte> buffer) noexcept;
  Received receive(std::span<std::byte> buffer, std::uint64_t timeout_ns) noexcept;

private:
  UniqueFd fd_;
};

}  // namespace simm::ipc
