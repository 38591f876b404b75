// The answering half of a queue pair: what it does with what arrives.
#include <algorithm>
#include <cstring>

#include "tests/sim/rdma/sim_queue_pair.h"
#include "tests/sim/rdma/sim_rdma_device.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"

namespace simm::sim {

using transport::WorkStatus;

namespace {

constexpr std::uint64_t kAnswersAStep = 4;
constexpr std::uint32_t kFullStepsMax = 32;  // retries of a message that finds no receive

}  // namespace

SimQueuePair::Taken SimQueuePair::on_packet(const SimPacket& packet) {
  if (state_ == State::made) return Taken::not_yet;
  if (state_ == State::failed) return on_late_packet(packet);
  switch (packet.kind) {
    case PacketKind::read_response:
    case PacketKind::acknowledge:
    case PacketKind::refuse:
      on_answer(packet);
      return Taken::yes;
    default:
      return has_refused_ ? Taken::dropped : on_request(packet);
  }
}

// Its device had begun to handle the packet when it failed. What follows a refused request is never
// in order, so nothing of that is handled.
SimQueuePair::Taken SimQueuePair::on_late_packet(const SimPacket& packet) {
  if (late_packets_left_ == 0) return Taken::dropped;
  --late_packets_left_;
  if (packet.kind == PacketKind::read_response) {
    const auto read = late_reads_.find(packet.work);
    if (read == late_reads_.end()) return Taken::dropped;
    place(read->second, packet);
  } else if (packet.kind == PacketKind::write && config_.is_requester && !has_refused_) {
    std::byte* const memory = device_.remote(packet.remote, packet.total_bytes);
    if (memory == nullptr) return Taken::dropped;
    std::copy(packet.data.begin(), packet.data.end(), memory + packet.offset);
    fabric_.counters_.written_bytes += packet.data.size();
  } else {
    return Taken::dropped;
  }
  fabric_.counters_.late_bytes += packet.data.size();
  return Taken::yes;
}

SimQueuePair::Taken SimQueuePair::on_request(const SimPacket& packet) {
  if (packet.kind == PacketKind::send) return on_send(packet);
  const bool is_access_checked = packet.total_bytes > 0;
  if (!config_.is_requester) {
    refuse(packet.work, WorkStatus::remote_failure);
  } else if (is_access_checked && device_.remote(packet.remote, packet.total_bytes) == nullptr) {
    refuse(packet.work, WorkStatus::remote_access);
  } else if (packet.kind == PacketKind::read_request) {
    answers_.push_back({PacketKind::read_response, packet.work, packet.remote, packet.total_bytes,
                        0, WorkStatus::ok});
  } else {
    if (is_access_checked) {
      // SAFETY: remote() has checked all of the work, and a piece is a part of it.
      std::copy(packet.data.begin(), packet.data.end(),
                device_.remote(packet.remote, packet.total_bytes) + packet.offset);
    }
    fabric_.counters_.written_bytes += packet.data.size();
    if (packet.is_last) answers_.push_back({PacketKind::acknowledge, packet.work, {}, 0, 0, {}});
  }
  return Taken::yes;
}

SimQueuePair::Taken SimQueuePair::on_send(const SimPacket& packet) {
  if (receives_.empty()) {
    if (++full_steps_ <= kFullStepsMax) return Taken::not_yet;
    // The only refusal after which the refusing end goes on: nothing is wrong with it.
    answers_.push_back({PacketKind::refuse, packet.work, {}, 0, 0, WorkStatus::receiver_full});
    has_refused_ = true;
    return Taken::yes;
  }
  full_steps_ = 0;
  const Receive receive = receives_.front();
  const std::uint64_t index = receives_posted_ - receives_.size();
  receives_.pop_front();
  const auto bytes = static_cast<std::uint32_t>(packet.data.size());
  if (bytes > receive.part.bytes) {
    ended_receives_.push_back({index, {this, receive.id, 0, WorkStatus::local_failure, true}});
    refuse(packet.work, WorkStatus::remote_failure);
    return Taken::yes;
  }
  if (bytes > 0) std::memcpy(device_.local(receive.part), packet.data.data(), bytes);
  ended_receives_.push_back({index, {this, receive.id, bytes, WorkStatus::ok, true}});
  fabric_.counters_.sends += 1;
  fabric_.counters_.send_bytes += bytes;
  answers_.push_back({PacketKind::acknowledge, packet.work, {}, 0, 0, {}});
  return Taken::yes;
}

// When its turn comes, after the answers before it, this end fails as well.
void SimQueuePair::refuse(std::uint64_t work, WorkStatus why) {
  answers_.push_back({PacketKind::refuse, work, {}, 0, 0, why});
  has_refused_ = true;
}

int SimQueuePair::answer() {
  int done = 0;
  for (std::uint64_t left = fabric_.dice_.between(0, kAnswersAStep); left > 0; --left) {
    if (answers_.empty()) break;
    Answer& first = answers_.front();
    ++done;
    if (first.kind == PacketKind::read_response && first.sent < first.bytes &&
        device_.remote(first.remote, first.bytes) == nullptr) {
      first.kind = PacketKind::refuse;  // deregistered meanwhile
      first.why = WorkStatus::remote_access;
    }
    SimPipe& pipe = fabric_.pipe_of(*this, true);
    if (first.kind == PacketKind::read_response) {
      pipe.packets.push_back(next_piece(first));
      if (first.sent == first.bytes) answers_.pop_front();
      continue;
    }
    const Answer answer = first;
    answers_.pop_front();
    pipe.packets.push_back({answer.kind, answer.work, {}, 0, 0, true, answer.why, {}});
    if (answer.kind == PacketKind::refuse && answer.why != WorkStatus::receiver_full) {
      fail_with(WorkStatus::flushed);
      break;
    }
  }
  return done;
}

SimPacket SimQueuePair::next_piece(Answer& read) {
  SimPacket packet;
  packet.kind = PacketKind::read_response;
  packet.work = read.work;
  packet.offset = read.sent;
  if (read.sent < read.bytes) {
    const std::uint32_t bytes = piece_bytes(read.bytes - read.sent);
    // SAFETY: answer() has checked that all of it is registered, and the piece is within it.
    const std::byte* const from = device_.remote(read.remote, read.bytes) + read.sent;
    packet.data.assign(from, from + bytes);
    read.sent += bytes;
  }
  packet.is_last = read.sent == read.bytes;
  return packet;
}

}  // namespace simm::sim
