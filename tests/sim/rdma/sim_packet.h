// SimPacket: a piece of a work, or of an answer, on its way from one simulated queue pair to
// another. SimPipe: the packets of one direction that one queue pair has sent; they arrive in
// order, and travel on when their sender is gone, as packets do.
// Thread: the one simulated thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/transport/rdma/device/queue_pair.h"

namespace simm::sim {

class SimRdmaDevice;

enum class PacketKind : std::uint8_t {
  send,
  write,
  read_request,
  read_response,
  acknowledge,  // of this work and of all before it
  refuse,       // of this work, and `why`; what is before it is acknowledged
};

struct SimPacket {
  PacketKind kind = PacketKind::send;
  std::uint64_t work = 0;  // of the asking queue pair, counted from its first
  transport::RemotePart remote;
  std::uint64_t offset = 0;       // of this piece in the work
  std::uint32_t total_bytes = 0;  // of the work
  bool is_last = false;
  transport::WorkStatus why = transport::WorkStatus::ok;
  std::vector<std::byte> data;
};

struct SimPipe {
  const SimRdmaDevice* from = nullptr;
  transport::QueuePairAddress sender;
  transport::QueuePairAddress receiver;
  std::uint64_t sender_serial = 0;
  bool is_answers = false;
  bool is_lost = false;  // the receiver is not there (any more): whatever follows is dropped
  std::deque<SimPacket> packets;
};

}  // namespace simm::sim
