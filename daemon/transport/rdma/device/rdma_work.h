// Work: what a queue pair is told to do. Completion: that it was done, or not. The terms are those
// of the InfiniBand Architecture Specification (volume 1, chapter 10), with what we do not use left
// out. Plain values. Thread: the data agent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace simm::transport {

class QueuePair;

// A piece of memory of this daemon. `key`: the local key (lkey) of the registration that covers it.
struct LocalPart {
  std::byte* at = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t key = 0;
};

// Memory of the other end, as that end's daemon named it. `key`: the remote key (rkey).
struct RemotePart {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

enum class WorkKind : std::uint8_t {
  send = 0,   // a message, into the oldest receive of the other end
  read = 1,   // remote memory -> parts
  write = 2,  // parts -> remote memory
};

struct Work {
  static constexpr std::size_t kPartsMax = 2;

  std::uint64_t id = 0;
  WorkKind kind = WorkKind::send;
  // True: its end is reported. False: only when it fails. A report says of every work that was
  // posted before it on that queue pair that it has ended too: well, if nothing else was reported.
  bool is_signaled = false;
  std::uint8_t part_count = 0;  // 1 .. kPartsMax; 0: a transfer of no bytes
  std::array<LocalPart, kPartsMax> parts{};
  RemotePart remote;  // read, write
};

enum class WorkStatus : std::uint8_t {
  ok = 0,
  flushed,         // the queue pair had failed before its turn came
  remote_access,   // the remote key is not good for that, or for that range
  peer_lost,       // no answer after all retries
  receiver_full,   // no receive was posted there, after all retries
  remote_failure,  // the other end could not do it, or refused the message
  local_failure,   // this end: a local key, a length
};

struct Completion {
  QueuePair* queue_pair = nullptr;  // whose it is; never one that was destroyed
  std::uint64_t id = 0;             // of the work or of the receive
  std::uint32_t bytes = 0;          // of a message that was received
  WorkStatus status = WorkStatus::ok;
  bool is_receive = false;
};

}  // namespace simm::transport
