#include "tests/sim/rdma/sim_rdma_port.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "simm/check.h"
#include "tests/sim/rdma/sim_queue_pair.h"
#include "tests/sim/rdma/sim_rdma_device.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"

namespace simm::sim {

SimRdmaPort::SimRdmaPort(SimRdmaDevice& device, std::uint32_t completions_max)
    : device_(device),
      completions_max_(completions_max),
      event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  SIMM_CHECK(event_ >= 0);
  ++device_.ports_;
}

SimRdmaPort::~SimRdmaPort() {
  SIMM_CHECK(queue_pairs_ == 0);
  --device_.ports_;
  ::close(event_);
}

Expected<std::unique_ptr<transport::QueuePair>> SimRdmaPort::make_queue_pair(
    const transport::QueuePairConfig& config) {
  const std::uint64_t wanted = std::uint64_t{config.sends_max} + config.receives_max;
  if (wanted > completions_max_ - reserved_) {
    return Error{Status::out_of_memory, "no room in the completion queue"};
  }
  if (device_.queue_pairs_.size() >= device_.config_.queue_pairs_max) {
    return Error{Status::out_of_memory, device_.config_.name + ": has no more queue pairs"};
  }
  reserved_ += static_cast<std::uint32_t>(wanted);
  ++queue_pairs_;
  return std::unique_ptr<transport::QueuePair>(
      std::make_unique<SimQueuePair>(*this, device_, config));
}

std::size_t SimRdmaPort::poll(std::span<transport::Completion> completions) noexcept {
  std::size_t count = std::min(entries_.size(), completions.size());
  if (count > 0) count = device_.fabric_.dice_.between(1, count);
  for (std::size_t i = 0; i < count; ++i) {
    const Entry& entry = entries_.front();
    completions[i] = entry.completion;
    auto& known = entry.completion.is_receive ? entry.queue_pair->receives_polled_
                                              : entry.queue_pair->known_to_have_ended_;
    known = entry.through;
    entries_.pop_front();
  }
  return count;
}

bool SimRdmaPort::prepare_sleep() noexcept {
  std::uint64_t rung = 0;
  while (::read(event_, &rung, sizeof rung) > 0) continue;
  is_armed_ = entries_.empty();
  return is_armed_;
}

void SimRdmaPort::complete(const Entry& entry) {
  entries_.push_back(entry);
  // Room was reserved for all that a queue pair may have outstanding.
  SIMM_CHECK(entries_.size() <= completions_max_);
  on_completion();
  if (!std::exchange(is_armed_, false)) return;
  const std::uint64_t one = 1;
  SIMM_CHECK(::write(event_, &one, sizeof one) == sizeof one);
}

void SimRdmaPort::remove(SimQueuePair& queue_pair) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.queue_pair == &queue_pair; });
  reserved_ -= queue_pair.config_.sends_max + queue_pair.config_.receives_max;
  --queue_pairs_;
}

}  // namespace simm::sim
