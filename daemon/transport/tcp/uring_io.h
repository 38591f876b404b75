// UringIo: SocketIo on io_uring. An idle turn makes no system call: completions, and whether the
// kernel has some to hand over, are read from shared memory.
//
// The kernel executes a deferred receive only while this thread is inside io_uring_enter (kernels
// with DEFER_TASKRUN) or any system call of it (older ones); cancel() asks for the end of one, and
// only its completion proves it.
//
// A sleeper is woken by an eventfd: the ring's own descriptor is not readable while deferred work
// waits (seen with Linux 6.18). The kernel writes to it only between prepare_sleep() and the next
// completion.
#pragma once

#include <liburing.h>

#include "daemon/transport/tcp/socket_io.h"
#include "ipc/fd.h"

namespace simm::transport {

class UringIo final : public SocketIo, private base::FdWatch {
public:
  // unsupported: the kernel refuses io_uring or lacks an operation that is needed. Where it can not
  // send without copies, `wanted` comes to never.
  static Expected<std::unique_ptr<SocketIo>> make(base::Waiter* waiter, UncopiedSends wanted);
  ~UringIo() override;
  UringIo(const UringIo&) = delete;
  UringIo& operator=(const UringIo&) = delete;

  [[nodiscard]] SocketIoKind kind() const noexcept override { return SocketIoKind::uring; }
  [[nodiscard]] UncopiedSends uncopied_sends() const noexcept override { return uncopied_; }
  [[nodiscard]] bool open(IoSocket& socket) noexcept override;
  void close(IoSocket& socket) noexcept override;
  void receive(IoSocket& socket) noexcept override;
  void send(IoSocket& socket) noexcept override;
  void cancel(IoSocket& socket) noexcept override;
  int poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;

private:
  UringIo(base::Waiter* waiter, UncopiedSends wanted) noexcept
      : waiter_(waiter), uncopied_(wanted) {}

  // The agent's next turn reads the completions.
  void on_fd_ready(std::uint32_t) noexcept override;

  bool set_up_rings() noexcept;
  [[nodiscard]] bool has_operations() noexcept;
  Outcome set_up_bell();
  io_uring_sqe& next_entry() noexcept;
  void submit() noexcept;
  void complete(const io_uring_cqe& entry) noexcept;

  base::Waiter* const waiter_;
  UncopiedSends uncopied_;
  io_uring ring_{};
  ipc::UniqueFd bell_;
  bool is_bell_on_ = false;   // until a completion comes, however many turns that takes
  bool looks_again_ = false;  // the next poll() is the first one behind the bell's switch
  bool is_set_up_ = false;
  bool is_enabled_ = false;    // by the first turn, which makes its thread the ring's
  std::uint32_t waiting_ = 0;  // entries that the kernel has not seen yet
};

}  // namespace simm::transport
