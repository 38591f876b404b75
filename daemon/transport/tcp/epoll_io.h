// EpollIo: SocketIo by non-blocking system calls, with edge-triggered epoll to learn which sockets
// are worth another try. Nothing is ever under way in the kernel between two calls of poll(), so a
// cancel is over at once.
#pragma once

#include "daemon/transport/tcp/socket_io.h"
#include "ipc/fd.h"

namespace simm::transport {

class EpollIo final : public SocketIo, private base::FdWatch {
public:
  static Expected<std::unique_ptr<SocketIo>> make(base::Waiter* waiter);
  ~EpollIo() override;
  EpollIo(const EpollIo&) = delete;
  EpollIo& operator=(const EpollIo&) = delete;

  [[nodiscard]] SocketIoKind kind() const noexcept override { return SocketIoKind::epoll; }
  [[nodiscard]] bool open(IoSocket& socket) noexcept override;
  void close(IoSocket& socket) noexcept override;
  void receive(IoSocket& socket) noexcept override;
  void send(IoSocket& socket) noexcept override;
  void cancel(IoSocket& socket) noexcept override;
  int poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return try_.empty(); }

private:
  EpollIo(ipc::UniqueFd epoll, base::Waiter* waiter) noexcept
      : epoll_(std::move(epoll)), waiter_(waiter) {}

  // The agent's next turn asks epoll itself.
  void on_fd_ready(std::uint32_t) noexcept override {}

  void want(IoSocket& socket) noexcept;
  static bool try_receive(IoSocket& socket) noexcept;
  static bool try_send(IoSocket& socket) noexcept;

  ipc::UniqueFd epoll_;
  base::Waiter* const waiter_;
  base::IntrusiveList<IoSocket, IoTryTag> try_;  // something is wanted, and it may go
};

}  // namespace simm::transport
