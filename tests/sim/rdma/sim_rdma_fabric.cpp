#include "tests/sim/rdma/sim_rdma_fabric.h"

#include <algorithm>
#include <iterator>

#include "simm/check.h"
#include "tests/sim/rdma/sim_queue_pair.h"

namespace simm::sim {

SimRdmaFabric::~SimRdmaFabric() {
  SIMM_CHECK(devices_.empty());  // they refer to it
}

std::unique_ptr<SimRdmaDevice> SimRdmaFabric::make_device(const SimDeviceConfig& config) {
  auto device = std::make_unique<SimRdmaDevice>(*this, ++devices_made_, config);
  devices_.insert(device.get());
  if (config.bytes_per_step > 0) allowances_[device.get()] = 0;
  return device;
}

int SimRdmaFabric::step() {
  int done = 0;
  for (auto& [device, allowance] : allowances_) {
    allowance = std::min<std::int64_t>(allowance, 0) +
                static_cast<std::int64_t>(device->config_.bytes_per_step);
  }
  is_busy_ = false;
  for (auto& [serial, queue_pair] : queue_pairs_) {
    is_busy_ = is_busy_ || queue_pair->has_work();
    done += queue_pair->turn();
  }
  // A packet makes no queue pair and no pipe, so both maps stay as they are. Each time another pipe
  // is the first one: of a slow port that is the one that gets something.
  if (!pipes_.empty()) {
    const auto first =
        std::next(pipes_.begin(), static_cast<std::ptrdiff_t>(steps_++ % pipes_.size()));
    for (auto pipe = first; pipe != pipes_.end(); ++pipe) done += deliver(pipe->second);
    for (auto pipe = pipes_.begin(); pipe != first; ++pipe) done += deliver(pipe->second);
  }
  for (auto entry = pipes_.begin(); entry != pipes_.end();) {
    is_busy_ = is_busy_ || !entry->second.packets.empty();
    const bool is_over =
        entry->second.packets.empty() && !queue_pairs_.contains(entry->first.first);
    entry = is_over ? pipes_.erase(entry) : std::next(entry);
  }
  return done;
}

void SimRdmaFabric::settle() {
  constexpr int kQuietSteps = 64;  // so long by chance: once in 5^64
  constexpr int kStepsMax = 1'000'000;
  int quiet = 0;
  int steps = 0;
  while (quiet < kQuietSteps) {
    quiet = step() == 0 ? quiet + 1 : 0;
    SIMM_CHECK(++steps < kStepsMax);  // the users of the fabric are not run here: it has an end
  }
}

std::size_t SimRdmaFabric::under_way(const SimRdmaDevice& from, const SimRdmaDevice& to) const {
  std::size_t packets = 0;
  for (const auto& [key, pipe] : pipes_) {
    if (pipe.from == &from && device_of(pipe.receiver) == &to) packets += pipe.packets.size();
  }
  return packets;
}

void SimRdmaFabric::add(SimQueuePair& queue_pair) {
  queue_pair.serial_ = ++serials_;
  queue_pairs_[queue_pair.serial_] = &queue_pair;
}

void SimRdmaFabric::remove(SimQueuePair& queue_pair) {
  queue_pairs_.erase(queue_pair.serial_);
}

void SimRdmaFabric::forget(const SimRdmaDevice& device) {
  for (auto entry = pipes_.begin(); entry != pipes_.end();) {
    entry = entry->second.from == &device ? pipes_.erase(entry) : std::next(entry);
  }
  cut_.erase(&device);
  mute_.erase(&device);
  allowances_.erase(&device);
  std::erase_if(held_,
                [&](const auto& way) { return way.first == &device || way.second == &device; });
  devices_.erase(const_cast<SimRdmaDevice*>(&device));
}

SimPipe& SimRdmaFabric::pipe_of(SimQueuePair& sender, bool answers) {
  SimPipe& pipe = pipes_[{sender.serial_, answers}];
  if (pipe.from == nullptr) {
    pipe.from = &sender.device_;
    pipe.sender = sender.address_;
    pipe.receiver = sender.far_;
    pipe.sender_serial = sender.serial_;
    pipe.is_answers = answers;
  }
  return pipe;
}

const SimRdmaDevice* SimRdmaFabric::device_of(const transport::QueuePairAddress& address) const {
  for (const SimRdmaDevice* device : devices_) {
    if (device->address_.gid == address.gid) return device;
  }
  return nullptr;
}

bool SimRdmaFabric::is_held(const SimRdmaDevice* one, const SimRdmaDevice* other) const {
  return held_.contains({one, other}) || held_.contains({other, one});
}

bool SimRdmaFabric::is_cut(const SimPipe& pipe) const {
  return cut_.contains(pipe.from) || cut_.contains(device_of(pipe.receiver));
}

bool SimRdmaFabric::is_swallowed(const SimPipe& pipe) const {
  const auto found = swallowed_.find({pipe.from, device_of(pipe.receiver)});
  return found != swallowed_.end() && pipe.packets.front().total_bytes >= found->second;
}

bool SimRdmaFabric::is_spent(const SimPipe& pipe) const {
  const auto found = allowances_.find(pipe.from);
  return found != allowances_.end() && found->second <= 0;
}

void SimRdmaFabric::spend(const SimPipe& pipe) {
  constexpr std::size_t kHeaderBytes = 64;
  const auto found = allowances_.find(pipe.from);
  if (found == allowances_.end()) return;
  found->second -= static_cast<std::int64_t>(pipe.packets.front().data.size() + kHeaderBytes);
}

int SimRdmaFabric::deliver(SimPipe& pipe) {
  const SimRdmaDevice* const to = device_of(pipe.receiver);
  if (pipe.packets.empty() || held_.contains({pipe.from, to})) return 0;
  if (pipe.is_answers && mute_.contains(pipe.from)) return 0;
  const auto found = queue_pairs_.find(pipe.sender_serial);
  SimQueuePair* const sender = found == queue_pairs_.end() ? nullptr : found->second;
  // Who is alive sends again what was lost.
  const bool is_repeated = sender != nullptr && sender->state_ == SimQueuePair::State::connected;
  if (to == nullptr || (is_cut(pipe) && !is_repeated)) pipe.is_lost = true;
  if (!pipe.is_lost && is_cut(pipe)) return 0;

  int done = 0;
  for (std::uint64_t left = dice_.between(0, 4); left > 0 && !pipe.packets.empty(); --left) {
    if (is_swallowed(pipe)) return done;
    if (is_spent(pipe)) return done + 1;  // something goes on, and it will go in its turn
    SimQueuePair* receiver = nullptr;
    if (!pipe.is_lost) {
      const auto entry = to->queue_pairs_.find(pipe.receiver.number);
      receiver = entry == to->queue_pairs_.end() ? nullptr : entry->second;
      // A new queue pair with an old number has another first packet.
      pipe.is_lost =
          receiver == nullptr || receiver->address_ != pipe.receiver ||
          (receiver->state_ != SimQueuePair::State::made && receiver->far_ != pipe.sender);
    }
    auto taken = SimQueuePair::Taken::dropped;
    if (!pipe.is_lost) taken = receiver->on_packet(pipe.packets.front());
    if (taken == SimQueuePair::Taken::not_yet && is_repeated) {
      if (receiver->state_ == SimQueuePair::State::connected) {
        sender->heard();
        ++done;
      }
      return done;
    }
    if (taken == SimQueuePair::Taken::yes && sender != nullptr) sender->heard();
    if (taken != SimQueuePair::Taken::yes) ++counters_.dropped_packets;
    if (taken == SimQueuePair::Taken::not_yet) pipe.is_lost = true;
    spend(pipe);
    pipe.packets.pop_front();
    ++done;
  }
  return done;
}

}  // namespace simm::sim
