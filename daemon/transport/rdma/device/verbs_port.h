// VerbsPort: a completion queue of libibverbs with an event channel.
//
// A work's number on the device says whose it is: the place of its queue pair in a table of this
// port, and how often that place was given away before. So what the device still reports of a
// queue pair that was destroyed is recognised, even when there is a new one with the same number.
// A queue pair takes its place when it first posts: the table is the data agent's alone.
// Thread: as RdmaPort says.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/transport/rdma/device/rdma_port.h"
#include "daemon/transport/rdma/device/verbs_handles.h"

namespace simm::transport {

class VerbsDevice;
class VerbsQueuePair;

class VerbsPort final : public RdmaPort {
public:
  static Expected<std::unique_ptr<VerbsPort>> make(VerbsDevice& device,
                                                   std::uint32_t completions_max);
  ~VerbsPort() override;

  Expected<std::unique_ptr<QueuePair>> make_queue_pair(const QueuePairConfig& config) override;
  [[nodiscard]] std::size_t poll(std::span<Completion> completions) noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  [[nodiscard]] int event_descriptor() const noexcept override { return channel_->fd; }

private:
  friend class VerbsQueuePair;
  struct Place {
    VerbsQueuePair* queue_pair = nullptr;
    std::uint16_t generation = 0;
  };
  static constexpr std::size_t kBatchMax = 32;

  VerbsPort(VerbsDevice& device, VerbsHandle<ibv_comp_channel> channel, VerbsHandle<ibv_cq> queue,
            std::uint32_t completions_max);

  // Its mark for the numbers of its works. Data agent.
  std::uint64_t take_place(VerbsQueuePair& queue_pair) noexcept;
  // Data agent: `mark` from take_place(). The device is through with it.
  void leave_place(std::uint64_t mark, std::uint32_t reserved) noexcept;
  // Any thread: it has never posted.
  void give_back(std::uint32_t reserved) noexcept;

  std::size_t fetch(std::span<ibv_wc> found) noexcept;
  bool translate(const ibv_wc& from, Completion& to) noexcept;
  // Whether there was one.
  bool take_event() noexcept;

  VerbsDevice& device_;
  const VerbsHandle<ibv_comp_channel> channel_;
  const VerbsHandle<ibv_cq> queue_;
  const std::uint32_t completions_max_;
  std::atomic<std::uint32_t> reserved_{0};  // completions, by the queue pairs
  std::uint32_t left_behind_ = 0;  // of these, by queue pairs that are gone, until all is polled
  std::vector<Place> places_;
  std::vector<std::uint16_t> free_places_;
  bool is_armed_ = false;               // the next completion makes an event
  std::array<ibv_wc, kBatchMax> kept_;  // found by prepare_sleep()
  std::size_t kept_begin_ = 0;
  std::size_t kept_end_ = 0;
};

}  // namespace simm::transport
