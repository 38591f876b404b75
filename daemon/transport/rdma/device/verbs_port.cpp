#include "daemon/transport/rdma/device/verbs_port.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/transport/rdma/device/verbs_device.h"
#include "daemon/transport/rdma/device/verbs_queue_pair.h"
#include "daemon/transport/rdma/device/verbs_work_status.h"
#include "simm/check.h"

namespace simm::transport {
namespace {

// The mark in a work's number: its place, and how often that was given away before. Above it is
// one bit for receives, below it what the queue pair counts.
constexpr unsigned kPlaceShift = 32;
constexpr unsigned kGenerationShift = 48;
constexpr std::uint16_t kGenerationMask = 0x7fff;
constexpr std::size_t kPlacesMax = 0x10000;

}  // namespace

Expected<std::unique_ptr<VerbsPort>> VerbsPort::make(VerbsDevice& device,
                                                     std::uint32_t completions_max) {
  const std::string& name = device.info().device;
  if (completions_max == 0 || completions_max > device.info().completions_max) {
    return Error{Status::out_of_memory,
                 name + ": a completion queue of " + std::to_string(completions_max) +
                     ", and the device has at most " +
                     std::to_string(device.info().completions_max) + ": have fewer connections"};
  }
  VerbsHandle<ibv_comp_channel> channel(ibv_create_comp_channel(device.context()));
  if (!channel) {
    return verbs_error(Status::io_error, name, "ibv_create_comp_channel", errno,
                       "the daemon may have too many open files");
  }
  const int flags = ::fcntl(channel->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return system_error(name + ": fcntl of its event channel", errno);
  }
  VerbsHandle<ibv_cq> queue(ibv_create_cq(device.context(), static_cast<int>(completions_max),
                                          nullptr, channel.get(), device.next_vector()));
  if (!queue) {
    return verbs_error(Status::out_of_memory, name, "ibv_create_cq", errno,
                       "have fewer connections, or raise LimitMEMLOCK= of the systemd unit");
  }
  return std::unique_ptr<VerbsPort>(
      new VerbsPort(device, std::move(channel), std::move(queue), completions_max));
}

VerbsPort::VerbsPort(VerbsDevice& device, VerbsHandle<ibv_comp_channel> channel,
                     VerbsHandle<ibv_cq> queue, std::uint32_t completions_max)
    : device_(device),
      channel_(std::move(channel)),
      queue_(std::move(queue)),
      completions_max_(completions_max),
      // A queue pair reserves two completions at least.
      places_(std::min<std::size_t>(completions_max / 2, kPlacesMax)),
      kept_{} {
  free_places_.reserve(places_.size());
  for (std::size_t i = places_.size(); i > 0; --i) {
    free_places_.push_back(static_cast<std::uint16_t>(i - 1));
  }
}

VerbsPort::~VerbsPort() {
  SIMM_CHECK(free_places_.size() == places_.size());
}

Expected<std::unique_ptr<QueuePair>> VerbsPort::make_queue_pair(const QueuePairConfig& config) {
  SIMM_CHECK(config.sends_max > 0 && config.receives_max > 0);
  const std::uint32_t wanted = config.sends_max + config.receives_max;
  std::uint32_t reserved = reserved_.load(std::memory_order_relaxed);
  do {
    if (wanted > completions_max_ - reserved) {
      return Error{Status::out_of_memory, device_.info().device +
                                              ": no room in the completion queue for another "
                                              "connection: have fewer, or more data agents"};
    }
  } while (!reserved_.compare_exchange_weak(reserved, reserved + wanted));
  auto made = VerbsQueuePair::make(device_, *this, queue_.get(), config);
  if (!made) {
    give_back(wanted);
    return std::move(made).error();
  }
  return std::unique_ptr<QueuePair>(std::move(made).value());
}

std::size_t VerbsPort::poll(std::span<Completion> completions) noexcept {
  std::size_t count = 0;
  while (count < completions.size() && kept_begin_ < kept_end_) {
    if (translate(kept_[kept_begin_++], completions[count])) ++count;
  }
  std::array<ibv_wc, kBatchMax> batch;
  while (count < completions.size()) {
    const std::size_t room = std::min(completions.size() - count, batch.size());
    const std::size_t found = fetch(std::span(batch).first(room));
    for (std::size_t i = 0; i < found; ++i) {
      if (translate(batch[i], completions[count])) ++count;
    }
    if (found < room) break;
  }
  return count;
}

bool VerbsPort::prepare_sleep() noexcept {
  if (kept_begin_ < kept_end_) return false;
  // A request is good for one event, which may still be on its way when its completion was polled;
  // until it has come nobody need ask again, a system call on some devices: it wakes us then.
  if (take_event()) is_armed_ = false;
  if (!is_armed_ && ibv_req_notify_cq(queue_.get(), 0) != 0) return false;
  is_armed_ = true;
  // What came before the request rings no bell.
  kept_begin_ = 0;
  kept_end_ = fetch(kept_);
  return kept_end_ == 0;
}

std::size_t VerbsPort::fetch(std::span<ibv_wc> found) noexcept {
  const int count = ibv_poll_cq(queue_.get(), static_cast<int>(found.size()), found.data());
  const std::size_t taken = count > 0 ? static_cast<std::size_t>(count) : 0;
  if (count >= 0 && taken < found.size() && left_behind_ > 0) {
    give_back(std::exchange(left_behind_, 0));
  }
  return taken;
}

bool VerbsPort::translate(const ibv_wc& from, Completion& to) noexcept {
  const std::size_t index = from.wr_id >> kPlaceShift & 0xffff;
  const auto generation = static_cast<std::uint16_t>(from.wr_id >> kGenerationShift);
  SIMM_CHECK(index < places_.size());
  const Place& place = places_[index];
  if (place.queue_pair == nullptr || place.generation != (generation & kGenerationMask)) {
    return false;
  }
  to.queue_pair = place.queue_pair;
  to.is_receive = (from.wr_id & VerbsQueuePair::kReceiveBit) != 0;
  to.status = work_status(from.status);
  to.bytes = to.is_receive && to.status == WorkStatus::ok ? from.byte_len : 0;
  to.id = place.queue_pair->ended(static_cast<std::uint32_t>(from.wr_id), to.is_receive);
  return true;
}

// The channel has one queue, and that one request at a time: there is never a second event.
bool VerbsPort::take_event() noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_.get(), &queue, &context) != 0) return false;
  ibv_ack_cq_events(queue_.get(), 1);
  return true;
}

std::uint64_t VerbsPort::take_place(VerbsQueuePair& queue_pair) noexcept {
  // There are as many as queue pairs that can reserve completions.
  SIMM_CHECK(!free_places_.empty());
  const std::uint16_t index = free_places_.back();
  free_places_.pop_back();
  Place& place = places_[index];
  place.queue_pair = &queue_pair;
  return std::uint64_t{index} << kPlaceShift | std::uint64_t{place.generation} << kGenerationShift;
}

void VerbsPort::leave_place(std::uint64_t mark, std::uint32_t reserved) noexcept {
  const auto index = static_cast<std::uint16_t>(mark >> kPlaceShift);
  places_[index].queue_pair = nullptr;
  places_[index].generation = (places_[index].generation + 1) & kGenerationMask;
  free_places_.push_back(index);
  // What the device reported of it still takes room in the completion queue.
  left_behind_ += reserved;
}

void VerbsPort::give_back(std::uint32_t reserved) noexcept {
  reserved_.fetch_sub(reserved, std::memory_order_relaxed);
}

}  // namespace simm::transport
