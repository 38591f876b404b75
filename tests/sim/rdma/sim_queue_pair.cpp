// What both halves of a queue pair have in common, and its asking half.
#include "tests/sim/rdma/sim_queue_pair.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "simm/check.h"
#include "tests/sim/rdma/sim_rdma_device.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"
#include "tests/sim/rdma/sim_rdma_port.h"

namespace simm::sim {

using transport::WorkKind;
using transport::WorkStatus;

namespace {

constexpr std::uint64_t kPacketsAStep = 4;

bool is_mtu(std::uint16_t bytes) {
  return bytes == 256 || bytes == 512 || bytes == 1024 || bytes == 2048 || bytes == 4096;
}

std::uint32_t bytes_of(const transport::Work& work) {
  std::uint32_t bytes = 0;
  for (std::size_t i = 0; i < work.part_count; ++i) bytes += work.parts[i].bytes;
  return bytes;
}

}  // namespace

SimQueuePair::SimQueuePair(SimRdmaPort& port, SimRdmaDevice& device,
                           const transport::QueuePairConfig& config)
    : port_(port),
      device_(device),
      fabric_(device.fabric_),
      config_(config),
      address_(device.address_) {
  address_.number = device_.take_number();
  address_.first_packet = fabric_.dice_.between32(0, (1u << 24) - 1);
  address_.reads_in = std::min(config.reads_max, device_.config_.reads_max);
  device_.queue_pairs_[address_.number] = this;
  fabric_.add(*this);
}

SimQueuePair::~SimQueuePair() {
  destroy();
}

Outcome SimQueuePair::connect(const transport::QueuePairAddress& far) {
  SIMM_CHECK(state_ == State::made);
  if (far.is_ethernet != address_.is_ethernet || !is_mtu(far.mtu_bytes) || far.number == 0 ||
      far.number >= 1u << 24 || far.first_packet >= 1u << 24 || far.reads_in == 0) {
    return Error{Status::invalid_argument, "simulated queue pair: not to be reached from here"};
  }
  far_ = far;
  reads_out_max_ = std::min({config_.reads_max, device_.config_.reads_max, far.reads_in});
  patience_steps_ = fabric_.dice_.between32(40, 80);
  state_ = State::connected;
  return Done{};
}

std::size_t SimQueuePair::post(std::span<const transport::Work> works) noexcept {
  SIMM_CHECK(state_ == State::connected || state_ == State::failed);
  const std::size_t taken = std::min(works.size(), posts_left_);
  for (const transport::Work& work : works.first(taken)) {
    SIMM_CHECK(first_work_ + works_.size() - known_to_have_ended_ < config_.sends_max);
    SIMM_CHECK(work.part_count <= transport::Work::kPartsMax);
    for (std::size_t i = 0; i < work.part_count; ++i) device_.local(work.parts[i]);
    works_.push_back({work, bytes_of(work), 0});
    if (state_ == State::failed) end_first(WorkStatus::flushed);
  }
  if (posts_left_ != std::numeric_limits<std::size_t>::max()) posts_left_ -= taken;
  return taken;
}

bool SimQueuePair::post_receive(std::uint64_t id, const transport::LocalPart& part) noexcept {
  SIMM_CHECK(state_ != State::destroyed);
  if (posts_left_ != std::numeric_limits<std::size_t>::max()) return false;
  SIMM_CHECK(receives_posted_ - receives_polled_ < config_.receives_max);
  device_.local(part);
  const std::uint64_t index = receives_posted_++;
  if (state_ == State::failed) {
    // Some devices forget it.
    if (fabric_.dice_.percent(50)) return true;
    ended_receives_.push_back({index, {this, id, 0, WorkStatus::flushed, true}});
  } else {
    receives_.push_back({id, part});
  }
  return true;
}

void SimQueuePair::fail() noexcept {
  SIMM_CHECK(state_ != State::destroyed);
  if (state_ != State::failed) fail_with(WorkStatus::flushed);
}

void SimQueuePair::destroy() noexcept {
  if (std::exchange(state_, State::destroyed) == State::destroyed) return;
  fabric_.remove(*this);
  port_.remove(*this);
  device_.queue_pairs_.erase(address_.number);
  device_.used_numbers_.push_back(address_.number);
}

bool SimQueuePair::try_destroy() noexcept {
  SIMM_CHECK(state_ == State::failed || state_ == State::destroyed);
  if (state_ != State::destroyed && device_.fences_are_held_) return false;
  if (device_.config_.fence_percent < 100 &&
      !fabric_.dice_.percent(device_.config_.fence_percent)) {
    return state_ == State::destroyed;
  }
  destroy();
  return true;
}

int SimQueuePair::turn() {
  int done = complete(ended_) + complete(ended_receives_);
  if (state_ == State::connected) done += ask() + answer() + grow_impatient();
  return done;
}

int SimQueuePair::ask() {
  int done = 0;
  for (std::uint64_t left = fabric_.dice_.between(0, kPacketsAStep); left > 0; --left) {
    if (next_to_send_ == works_.size()) break;
    Asked& asked = works_[next_to_send_];
    const std::uint64_t index = first_work_ + next_to_send_;
    SimPipe& pipe = fabric_.pipe_of(*this, false);
    ++done;
    if (asked.work.kind == WorkKind::write) {
      pipe.packets.push_back(next_piece(asked, index));
      if (asked.sent < asked.bytes) continue;
    } else if (asked.work.kind == WorkKind::read) {
      if (reads_out_ == reads_out_max_) return done - 1;
      ++reads_out_;
      pipe.packets.push_back({PacketKind::read_request,
                              index,
                              asked.work.remote,
                              0,
                              asked.bytes,
                              true,
                              WorkStatus::ok,
                              {}});
    } else {
      pipe.packets.push_back({PacketKind::send,
                              index,
                              {},
                              0,
                              asked.bytes,
                              true,
                              WorkStatus::ok,
                              gather(asked.work, 0, asked.bytes)});
    }
    ++next_to_send_;
  }
  return done;
}

SimPacket SimQueuePair::next_piece(Asked& write, std::uint64_t index) {
  SimPacket packet;
  packet.kind = PacketKind::write;
  packet.work = index;
  packet.remote = write.work.remote;
  packet.offset = write.sent;
  packet.total_bytes = write.bytes;
  const std::uint32_t left = write.bytes - write.sent;
  if (left > 0) packet.data = gather(write.work, write.sent, piece_bytes(left));
  write.sent += static_cast<std::uint32_t>(packet.data.size());
  packet.is_last = write.sent == write.bytes;
  return packet;
}

std::uint32_t SimQueuePair::piece_bytes(std::uint32_t left) {
  return fabric_.dice_.between32(1, std::min(left, 4u * address_.mtu_bytes));
}

int SimQueuePair::complete(std::deque<Ended>& ended) {
  int done = 0;
  for (std::uint64_t left = fabric_.dice_.between(0, 3); left > 0 && !ended.empty(); --left) {
    const Ended& first = ended.front();
    if (first.is_reported) port_.complete({first.completion, this, first.index + 1});
    ended.pop_front();
    ++done;
  }
  return done;
}

int SimQueuePair::grow_impatient() {
  if (next_to_send_ == 0 && (works_.empty() || works_.front().sent == 0)) return 0;
  const SimRdmaDevice* const other = fabric_.device_of(far_);
  if (fabric_.is_held(&device_, other) || fabric_.mute_.contains(other)) return 0;
  if (++silence_steps_ > patience_steps_) fail_with(WorkStatus::peer_lost);
  return 1;
}

std::vector<std::byte> SimQueuePair::gather(const transport::Work& work, std::uint64_t offset,
                                            std::uint64_t bytes) const {
  std::vector<std::byte> data;
  data.reserve(bytes);
  for (std::size_t i = 0; i < work.part_count && data.size() < bytes; ++i) {
    const transport::LocalPart& part = work.parts[i];
    if (offset >= part.bytes) {
      offset -= part.bytes;
      continue;
    }
    const std::byte* const from = device_.local(part) + offset;
    const std::uint64_t count = std::min<std::uint64_t>(part.bytes - offset, bytes - data.size());
    // SAFETY: offset < part.bytes and count <= part.bytes - offset; local() has checked the part.
    data.insert(data.end(), from, from + count);
    offset = 0;
  }
  return data;
}

void SimQueuePair::place(const transport::Work& work, const SimPacket& packet) {
  std::uint64_t offset = packet.offset;
  std::uint64_t placed = 0;
  for (std::size_t i = 0; i < work.part_count && placed < packet.data.size(); ++i) {
    const transport::LocalPart& part = work.parts[i];
    if (offset >= part.bytes) {
      offset -= part.bytes;
      continue;
    }
    const std::uint64_t count =
        std::min<std::uint64_t>(part.bytes - offset, packet.data.size() - placed);
    std::memcpy(device_.local(part) + offset, packet.data.data() + placed, count);
    placed += count;
    offset = 0;
  }
  fabric_.counters_.read_bytes += placed;
}

void SimQueuePair::on_answer(const SimPacket& packet) {
  heard();
  if (packet.work < first_work_) return;
  end_before(packet.work);
  if (packet.kind == PacketKind::refuse) return fail_with(packet.why);
  if (packet.kind == PacketKind::read_response) place(works_.front().work, packet);
  if (packet.kind == PacketKind::acknowledge || packet.is_last) end_first(WorkStatus::ok);
}

void SimQueuePair::end_before(std::uint64_t work) {
  while (first_work_ < work) end_first(WorkStatus::ok);
}

void SimQueuePair::end_first(WorkStatus status) {
  SIMM_CHECK(!works_.empty());
  const transport::Work& work = works_.front().work;
  ended_.push_back({first_work_,
                    {this, work.id, 0, status, false},
                    work.is_signaled || status != WorkStatus::ok});
  if (next_to_send_ > 0) {
    --next_to_send_;
    if (work.kind == WorkKind::read) --reads_out_;
  }
  works_.pop_front();
  ++first_work_;
}

void SimQueuePair::fail_with(WorkStatus status) {
  state_ = State::failed;
  late_packets_left_ = fabric_.dice_.between32(0, 8);
  for (std::size_t i = 0; i < next_to_send_; ++i) {
    if (works_[i].work.kind == WorkKind::read) late_reads_[first_work_ + i] = works_[i].work;
  }
  while (!works_.empty()) end_first(std::exchange(status, WorkStatus::flushed));
  const std::uint64_t first = receives_posted_ - receives_.size();
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    ended_receives_.push_back({first + i, {this, receives_[i].id, 0, WorkStatus::flushed, true}});
  }
  receives_.clear();
  answers_.clear();
}

}  // namespace simm::sim
