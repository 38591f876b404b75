// TxQueue: the sending half of a connection: a queue of bytes in order. Headers and short bodies
// are written into a private ring of bytes; long payloads stay where they are and are only named.
// A payload may lie in memory of a client, which the kernel copies, and which may vanish: zeros are
// sent in its place then, so that the frames behind it stay where they are.
// What was sent without copies keeps its place until its memory is free again, and all that was
// sent after it as well: memory is given back in the order of the queue.
// Owned by a TcpConnection. Thread: the data agent. No allocation after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/lazy_array.h"
#include "daemon/transport/tcp/socket_io.h"

namespace simm::transport {

// Told when a payload that was queued with add_payload() is sent and its memory is free.
class PayloadOwner {
public:
  virtual ~PayloadOwner() = default;
  virtual void on_payload_sent(std::uint32_t tag) noexcept = 0;
  // Of a client: its memory has vanished, and zeros are sent for what was left of it.
  virtual void on_payload_vanished(std::uint32_t /*tag*/) noexcept {}
};

class TxQueue {
public:
  TxQueue();

  // Forgets everything. Nothing of it is being sent.
  void reset() noexcept;

  // Room for `bytes` (at most kFrameBytesMax) in one piece, null when there is none now. What was
  // reserved last is queued by commit(), as much of it as was used.
  [[nodiscard]] std::byte* reserve(std::uint32_t bytes) noexcept;
  void commit(std::uint32_t bytes) noexcept;
  // True: reserve(bytes), commit() and one add_payload() will not fail.
  [[nodiscard]] bool has_room(std::uint32_t bytes) const noexcept;
  // `data` stays valid until its owner is told.
  void add_payload(const std::byte* data, std::uint32_t bytes, std::uint32_t tag) noexcept;
  // The same of a client's memory, at most kChunkBytes. It is never sent without copies, so it is
  // free, and its owner told, as soon as the kernel has taken it.
  void add_client_payload(const std::byte* data, std::uint32_t bytes, std::uint32_t tag) noexcept;

  // Nothing is left to send.
  [[nodiscard]] bool empty() const noexcept { return count_ == sent_; }
  [[nodiscard]] std::uint64_t queued_bytes() const noexcept { return queued_bytes_; }

  // Names the next bytes to send, and returns how many of them are of long payloads that may be
  // sent without copies. Only when none are being sent, and not when it is empty.
  std::uint64_t prepare(IoSocket& socket) noexcept;
  void take_sent(std::uint32_t bytes, PayloadOwner& owner) noexcept;
  // The kernel answered EFAULT to the last prepare(): nothing was sent. False: it names no memory
  // of a client.
  [[nodiscard]] bool take_fault(PayloadOwner& owner) noexcept;

  // Sends that hold their memory.
  [[nodiscard]] bool can_hold() const noexcept {
    return holds_begun_ - holds_over_ < kSendsHeldMax;
  }
  // The send that is about to begin is one; returns its number.
  [[nodiscard]] std::uint32_t hold() noexcept {
    return static_cast<std::uint32_t>(holds_begun_++ % kSendsHeldMax);
  }
  // Those whose bits (by number) are set hold nothing any more.
  void release(std::uint32_t numbers, PayloadOwner& owner) noexcept;

  static constexpr std::uint32_t kFrameBytesMax = 1280 * 1024;

private:
  static constexpr std::uint64_t kRingBytes = 2 * 1024 * 1024;
  static constexpr std::uint32_t kSegments = 256;

  enum class Memory : std::uint8_t { ring, own, client };

  struct Segment {
    const std::byte* data = nullptr;
    std::uint32_t left = 0;
    std::uint32_t ring_bytes = 0;  // of the ring, given back when it is sent
    std::uint32_t tag = 0;         // of a payload
    Memory memory = Memory::ring;
    std::uint64_t holds = 0;  // sent: how many holds have to be over before its memory is free
  };

  [[nodiscard]] std::uint32_t gap_before(std::uint32_t bytes) const noexcept;
  Segment& push() noexcept;
  void push_payload(Memory memory, const std::byte* data, std::uint32_t bytes,
                    std::uint32_t tag) noexcept;
  void give_back(PayloadOwner& owner) noexcept;

  base::LazyArray<std::byte> ring_;
  std::uint64_t ring_head_ = 0;  // free-running: first byte in use, first free byte
  std::uint64_t ring_tail_ = 0;
  std::uint32_t gap_ = 0;  // skipped by the last reserve(), to be in one piece
  std::array<Segment, kSegments> segments_{};
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t sent_ = 0;   // of them, the first ones
  std::uint32_t named_ = 0;  // of those behind: by the last prepare()
  std::uint32_t alone_ = 0;  // of those behind: to be sent one by one, because one can not be read
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t holds_begun_ = 0;  // free-running
  std::uint64_t holds_over_ = 0;   // all before it
  std::uint32_t over_ = 0;         // by number: over, but one before it is not
};

}  // namespace simm::transport
