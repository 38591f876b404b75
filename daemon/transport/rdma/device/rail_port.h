// RailPort: a port object of a RailDevice for one end of a data agent. It is there as long as the
// agent, while the port behind it comes, and goes when its device has gone.
//
// How one goes while an agent may be polling it: close() takes it away from the agent, who puts it
// down with its next turn and says so; then take() has it, on a thread that may wait for a device.
// By then no queue pair is left on it.
// Owned by its end of a data agent; the device outlives it. Thread: open(), mute(), close(),
// is_closed() and take() the device's; make_queue_pair() any but a data agent; the rest the data
// agent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "daemon/transport/rdma/device/rdma_port.h"
#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::transport {

class RailDevice;

class RailPort final : public RdmaPort {
public:
  // Errors: out_of_memory (of descriptors).
  static Expected<std::unique_ptr<RailPort>> make(RailDevice& device,
                                                  std::uint32_t completions_max);
  ~RailPort() override;

  [[nodiscard]] std::uint32_t completions_max() const noexcept { return completions_max_; }
  void open(std::unique_ptr<RdmaPort> port);
  // It wakes nobody any more: a device that is gone would do so for ever.
  void mute() noexcept;
  void close() noexcept;
  // Behind close(): no agent uses it.
  [[nodiscard]] bool is_closed() const noexcept {
    return in_use_.load(std::memory_order_seq_cst) == nullptr;
  }
  [[nodiscard]] std::unique_ptr<RdmaPort> take() noexcept;

  Expected<std::unique_ptr<QueuePair>> make_queue_pair(const QueuePairConfig& config) override;
  [[nodiscard]] std::size_t poll(std::span<Completion> completions) noexcept override {
    if (offered_.load(std::memory_order_acquire) != used_) change();
    return used_ == nullptr ? 0 : used_->poll(completions);
  }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    if (offered_.load(std::memory_order_acquire) != used_) return false;
    return used_ == nullptr || used_->prepare_sleep();
  }
  // Readable too when the port behind it has changed.
  [[nodiscard]] int event_descriptor() const noexcept override { return events_.get(); }

private:
  RailPort(RailDevice& device, std::uint32_t completions_max);
  void change() noexcept;
  void offer(RdmaPort* port) noexcept;

  RailDevice& device_;
  const std::uint32_t completions_max_;
  const ipc::UniqueFd events_;   // an epoll of what the port has, and of the next
  const ipc::UniqueFd changed_;  // an eventfd
  std::mutex mutex_;             // of port_
  std::unique_ptr<RdmaPort> port_;
  std::atomic<RdmaPort*> offered_{nullptr};
  std::atomic<RdmaPort*> in_use_{nullptr};
  RdmaPort* used_ = nullptr;  // the agent's
};

}  // namespace simm::transport
