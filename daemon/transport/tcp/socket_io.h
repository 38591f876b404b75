// SocketIo: moves bytes between stream sockets and memory without blocking. Seam: on io_uring, on
// epoll where io_uring is refused, and scripted ones in tests. One per data agent; everything that
// owns connections on that agent shares it.
//
// A user keeps an IoSocket for each connection, with at most one receive and one send under way.
// What has ended is noted in the IoSocket, which is then put on its user's ready list: there are no
// upcalls. While a receive or a send is under way the kernel may touch the memory that its parts
// name; `receiving` and `sending` turn false, in poll(), only when it never will again.
//
// A send without copies ends when the kernel has queued it, and the memory stays the kernel's until
// the peer has acknowledged the bytes: `sends_held` counts those. Each has a number of the user's,
// a bit of `released` when its memory is free again.
//
// Thread: the data agent; made on another one before the agent runs.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/base/intrusive_list.h"
#include "daemon/base/waiter.h"
#include "simm/expected.h"

namespace simm::transport {

struct IoReadyTag {};
struct IoTryTag {};
struct IoSocket;
using IoReadyList = base::IntrusiveList<IoSocket, IoReadyTag>;

inline constexpr std::size_t kReceiveParts = 2;
inline constexpr std::size_t kSendParts = 32;
// Sends without copies on one socket whose memory is not free yet.
inline constexpr std::uint32_t kSendsHeldMax = 16;

struct IoSocket : base::ListLink<IoReadyTag>, base::ListLink<IoTryTag> {
  int descriptor = -1;           // non-blocking; the user's to close, after close()
  IoReadyList* ready = nullptr;  // where it is put when something has ended
  void* owner = nullptr;         // the user's
  // Set before set_up(): how much the kernel takes of what it can not send yet. 0: what it likes,
  // as with sends that are always without copies.
  int unsent_bytes_max = 0;

  // The user fills the parts before receive() or send(), and leaves them alone while under way.
  std::array<iovec, kReceiveParts> receive_parts{};
  std::size_t receive_count = 0;
  std::array<iovec, kSendParts> send_parts{};
  std::size_t send_count = 0;
  bool send_uncopied = false;     // the next send() is without copies, under this number
  std::uint32_t send_number = 0;  // below kSendsHeldMax, and not held

  // Set by receive() and send(), cleared when they have ended; then `received` (`sent`) is true
  // until the user takes the result: bytes, 0 for the end of the stream, or -errno.
  bool receiving = false;
  bool sending = false;
  bool received = false;
  bool sent = false;
  std::int32_t receive_result = 0;
  std::int32_t send_result = 0;
  std::uint32_t sends_held = 0;
  std::uint32_t released = 0;  // by number; the user takes the bits
  bool was_copied = false;     // of one of those: the kernel had to copy after all

  // The implementation's own.
  msghdr receive_message{};
  msghdr send_message{};
  bool readable = false;
  bool writable = false;
  std::uint32_t replies_due = 0;

  [[nodiscard]] bool busy() const noexcept {
    return receiving || sending || sends_held > 0 || replies_due > 0;
  }
  // Of results that the user has not taken yet.
  [[nodiscard]] std::uint64_t ended_bytes() const noexcept {
    const std::int32_t in = received ? std::max(receive_result, 0) : 0;
    const std::int32_t out = sent ? std::max(send_result, 0) : 0;
    return static_cast<std::uint64_t>(in) + static_cast<std::uint64_t>(out);
  }
};

// For implementations: something of it has ended.
inline void list_ready(IoSocket& socket) noexcept {
  if (!socket.base::ListLink<IoReadyTag>::linked()) socket.ready->push_back(socket);
}

enum class SocketIoKind : std::uint8_t { uring, epoll };
// uring_uncopied: io_uring whose users send without copies even where the kernel copies after all.
enum class SocketIoChoice : std::uint8_t { automatic, uring, uring_uncopied, epoll };

// Sends without copies: not there; as long as they save the copy; always.
enum class UncopiedSends : std::uint8_t { never, where_useful, always };

class SocketIo {
public:
  virtual ~SocketIo() = default;
  [[nodiscard]] virtual SocketIoKind kind() const noexcept = 0;
  [[nodiscard]] virtual UncopiedSends uncopied_sends() const noexcept {
    return UncopiedSends::never;
  }

  // Gives the descriptor the options of a data connection. False: it has none, and is of no use.
  // This and the two other calls that need no ring and no list are the system's by default; a
  // kernel that is simulated has its own.
  [[nodiscard]] virtual bool set_up(IoSocket& socket) noexcept;
  // The kernel takes what it likes from here on. Sends without copies end late where it takes
  // little of what it can not send yet.
  static void lift_unsent_bound(const IoSocket& socket) noexcept;
  // From open() to close() the IoSocket stays where it is. False: out of resources.
  [[nodiscard]] virtual bool open(IoSocket& socket) noexcept = 0;
  // Nothing is under way any more (busy() is false).
  virtual void close(IoSocket& socket) noexcept = 0;

  virtual void receive(IoSocket& socket) noexcept = 0;
  virtual void send(IoSocket& socket) noexcept = 0;
  // From here on no byte arrives, and the peer hears of it. What is held of sends without copies is
  // thrown away. What is under way goes on until cancel().
  virtual void shut_down(IoSocket& socket) noexcept;
  // Makes what is under way end soon, with whatever result. Its memory is free of the kernel when
  // busy() has become false.
  virtual void cancel(IoSocket& socket) noexcept = 0;

  // Of the bytes that were sent, those that the peer's machine has not acknowledged; the greatest
  // number where nobody knows. A system call: for rare looks.
  [[nodiscard]] virtual std::uint64_t unacknowledged_bytes(const IoSocket& socket) const noexcept;

  // Gives to the kernel what was asked for, and notes what has ended; how much that was.
  virtual int poll() noexcept = 0;

  // True: there is nothing to do before the waiter's descriptors say so.
  [[nodiscard]] virtual bool prepare_sleep() noexcept = 0;
};

// The best that this kernel allows (automatic), or exactly what was asked for. `waiter` is the
// agent's, woken by arrivals while it sleeps; null where nobody sleeps. unsupported: io_uring is
// refused here; io_error: out of descriptors.
Expected<std::unique_ptr<SocketIo>> make_socket_io(SocketIoChoice choice, base::Waiter* waiter);

}  // namespace simm::transport
