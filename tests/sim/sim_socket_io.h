// SimSocketIo: the SocketIo of one simulated process, over a SocketNetwork. Some are like epoll:
// bytes move in poll() only. Others are like io_uring: what was asked for goes on while the process
// does nothing, memory of clients is written then, and the end of a cancel takes its time.
// Thread: the one simulated thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/transport/tcp/socket_io.h"
#include "tests/sim/socket_network.h"

namespace simm::sim {

class SimSocketIo final : public transport::SocketIo {
public:
  SimSocketIo(SocketNetwork& network, bool is_asynchronous)
      : network_(network), is_asynchronous_(is_asynchronous) {}
  ~SimSocketIo() override { die(false); }
  SimSocketIo(const SimSocketIo&) = delete;
  SimSocketIo& operator=(const SimSocketIo&) = delete;

  // Called when poll() would find something.
  std::function<void()> wake = [] {};
  // Receives into memory of a client that has vanished fail, and sends from there.
  std::function<bool(std::span<const std::byte>)> is_reachable = [](std::span<const std::byte>) {
    return true;
  };

  // The process is dead: what it has asked for ends at once, and all that it asks for from now on.
  void die(bool silent);

  [[nodiscard]] transport::SocketIoKind kind() const noexcept override {
    return transport::SocketIoKind::epoll;
  }
  [[nodiscard]] bool set_up(transport::IoSocket&) noexcept override { return true; }
  [[nodiscard]] bool open(transport::IoSocket& socket) noexcept override;
  void close(transport::IoSocket& socket) noexcept override;
  void receive(transport::IoSocket& socket) noexcept override;
  void send(transport::IoSocket& socket) noexcept override;
  void shut_down(transport::IoSocket& socket) noexcept override;
  void cancel(transport::IoSocket& socket) noexcept override;
  [[nodiscard]] std::uint64_t unacknowledged_bytes(
      const transport::IoSocket& socket) const noexcept override;
  int poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return asked_.empty() && ended_.empty(); }

  // From the network: something has changed at that end.
  void on_news(int descriptor);

private:
  enum class Phase : std::uint8_t { idle, asked, armed, ended };
  struct Open {
    transport::IoSocket* socket = nullptr;
    SocketNetwork::Place place;
    Phase receive = Phase::idle;
    Phase send = Phase::idle;
    std::int32_t receive_result = 0;
    std::int32_t send_result = 0;
  };
  using OpenPtr = std::shared_ptr<Open>;

  [[nodiscard]] OpenPtr of(const transport::IoSocket& socket) const {
    return open_.at(socket.descriptor);
  }
  void ask(const OpenPtr& open);
  void try_both(const OpenPtr& open);
  void try_receive(const OpenPtr& open);
  void try_send(const OpenPtr& open);
  void end_receive(const OpenPtr& open, std::int32_t result);
  void end_send(const OpenPtr& open, std::int32_t result);
  void end_all(const OpenPtr& open, std::int32_t result);

  SocketNetwork& network_;
  const bool is_asynchronous_;
  bool is_dead_ = false;
  std::map<int, OpenPtr> open_;  // by descriptor
  std::vector<OpenPtr> asked_;
  std::vector<OpenPtr> ended_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace simm::sim
