// SimRdmaPort: the completion queue of a simulated end.
// Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "daemon/transport/rdma/device/rdma_port.h"

namespace simm::sim {

class SimQueuePair;
class SimRdmaDevice;

class SimRdmaPort final : public transport::RdmaPort {
public:
  // Called when there is a completion more.
  std::function<void()> on_completion = [] {};

  SimRdmaPort(SimRdmaDevice& device, std::uint32_t completions_max);
  ~SimRdmaPort() override;

  Expected<std::unique_ptr<transport::QueuePair>> make_queue_pair(
      const transport::QueuePairConfig& config) override;
  [[nodiscard]] std::size_t poll(std::span<transport::Completion> completions) noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  [[nodiscard]] int event_descriptor() const noexcept override { return event_; }

private:
  friend class SimQueuePair;
  struct Entry {
    transport::Completion completion;
    SimQueuePair* queue_pair;
    std::uint64_t through;  // the works, or the receives, that are known to have ended then
  };

  void complete(const Entry& entry);
  void remove(SimQueuePair& queue_pair);

  SimRdmaDevice& device_;
  const std::uint32_t completions_max_;
  std::uint32_t reserved_ = 0;  // by the queue pairs
  std::uint32_t queue_pairs_ = 0;
  std::deque<Entry> entries_;
  int event_;
  bool is_armed_ = false;
};

}  // namespace simm::sim
