// RdmaChannel: one link as its data agent drives it: messages in and out with their credits, works
// in the order in which they were posted, and the end. It knows envelopes but not requests; a
// RdmaRequesterLink or RdmaResponderLink owns it and is its handler.
//
// Credits: each end has kReceives receives, and counts in every envelope how many parts it has
// taken; so nobody sends what has no receive. Who has taken half of them and has nothing to say
// sends a message for that alone.
//
// fail() is the beginning of the end; try_fence() is tried until the device touches no memory for
// this link any more; then close(). Thread: the data agent. No allocation after construction, and
// none but the device's own at the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/base/free_slots.h"
#include "daemon/transport/rdma/message_wire.h"
#include "daemon/transport/rdma/rdma_counters.h"
#include "daemon/transport/rdma/rdma_link.h"
#include "daemon/transport/rdma/rdma_window.h"

namespace simm::transport {

class MessageHandler {
public:
  virtual ~MessageHandler() = default;
  // A part of a message; `part` is valid during the call. False: no peer of ours sends that.
  [[nodiscard]] virtual bool on_part(const wire::Envelope& envelope,
                                     std::span<const std::byte> part) noexcept = 0;
  // A read or write that was posted with this tag went well. Not called for those of a link that
  // has failed.
  virtual void on_moved(std::uint32_t tag, std::uint32_t bytes) noexcept = 0;
};

class RdmaChannel {
public:
  explicit RdmaChannel(RdmaCounters& counters) noexcept : counters_(counters) {}

  // `payload_time_ns_max`: of the window (rdma_window.h); of no interest to who moves nothing.
  void open(std::unique_ptr<RdmaLink> link, base::TimeNs now_ns,
            base::TimeNs payload_time_ns_max) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return state_ == State::open; }
  [[nodiscard]] bool is_closing() const noexcept { return state_ == State::closing; }
  [[nodiscard]] bool is_free() const noexcept { return state_ == State::free; }
  // The first cause stays. Nothing happens unless it is open.
  void fail(LinkLoss cause) noexcept;
  // Of a failed one: begins to destroy the queue pair, or goes on; true: it is fenced.
  [[nodiscard]] bool try_fence() noexcept;
  // Gives a failed one's link back, fenced; where try_fence() was not true, it waits.
  [[nodiscard]] std::unique_ptr<RdmaLink> close() noexcept;

  // Takes one of its completions. Those of a failed link are of no interest.
  void serve(const Completion& completion, MessageHandler& handler, base::TimeNs now_ns) noexcept;

  // ---- messages ----

  // True: there is room for one more part now.
  [[nodiscard]] bool can_send() const noexcept { return has_room(kCreditsReserved); }
  // Where the next part's body goes, wire::kPartBytesMax; only when can_send().
  [[nodiscard]] std::byte* part() noexcept;
  // Sends what was written there, envelope.part_bytes long.
  void send(const wire::Envelope& envelope) noexcept;
  // A message as long as a part may be, of zeros; only when can_send().
  void send_long(wire::MessageKind kind) noexcept;
  // A message without a body. False: no room now.
  [[nodiscard]] bool send_bare(const wire::Envelope& envelope) noexcept;
  // True: the other end has to hear soon what it may send.
  [[nodiscard]] bool owes_credit() const noexcept { return received_ - told_ >= kReceives / 2; }
  void send_credit() noexcept;

  // ---- moves ----

  // True: a read, or a write, of at most piece_bytes() can be posted now.
  [[nodiscard]] bool can_read() const noexcept { return reads_out_ < reads_max_ && can_move(); }
  [[nodiscard]] bool can_write() const noexcept { return can_move(); }
  [[nodiscard]] std::uint32_t piece_bytes() const noexcept { return window_.piece_bytes(); }
  // kind, parts and remote are filled.
  void move(Work& work, std::uint32_t tag, std::uint32_t bytes, base::TimeNs now_ns) noexcept;

  // Gives to the device what was collected.
  void flush() noexcept;

  [[nodiscard]] const RdmaLink& link() const noexcept { return *link_; }

  // The other end was heard: the path carries messages both ways.
  [[nodiscard]] bool was_heard() const noexcept { return link_->was_heard; }

  // `away_ns` of the silence until now were not the peer's.
  void forgive(base::TimeNs away_ns, base::TimeNs now_ns) noexcept;
  base::TimeNs heard_ns = 0;  // when something was received last

private:
  enum class State : std::uint8_t { free, open, closing };
  struct Posted {
    std::uint32_t tag = 0;  // of a send: its buffer
    std::uint32_t bytes = 0;
    WorkKind kind = WorkKind::send;
    base::TimeNs at_ns = 0;  // when; of a move
  };
  static constexpr std::size_t kBatch = 16;

  [[nodiscard]] bool has_room(std::uint32_t reserved) const noexcept {
    return free_.count() > 0 && sent_ - granted_ < kReceives - reserved &&
           posted_ - ended_ < kWorksMax;
  }
  // Sends always find room beside moves.
  [[nodiscard]] bool can_move() const noexcept {
    return window_.is_open(bytes_out_) && posted_ - ended_ < kWorksMax - kSendBuffers;
  }
  [[nodiscard]] std::byte* receive_at(std::uint64_t buffer) const noexcept;
  [[nodiscard]] std::byte* send_at(std::uint32_t buffer) const noexcept;
  void post_receive(std::uint64_t buffer) noexcept;
  void collect(Work& work, Posted posted) noexcept;
  void take_message(const Completion& completion, MessageHandler& handler,
                    base::TimeNs now_ns) noexcept;
  [[nodiscard]] bool take_credit(std::uint32_t received) noexcept;
  void end_until(std::uint64_t id, MessageHandler& handler, base::TimeNs now_ns) noexcept;

  RdmaCounters& counters_;
  FrameSeal sent_seal_;
  FrameSeal received_seal_;
  State state_ = State::free;
  std::unique_ptr<RdmaLink> link_;
  std::uint32_t reads_max_ = 1;

  base::FreeSlots free_{kSendBuffers};  // send buffers
  std::uint32_t sent_ = 0;              // parts, and wraps, as the next three
  std::uint32_t granted_ = 0;           // of those, taken by the other end, as it said
  std::uint32_t received_ = 0;          // parts
  std::uint32_t told_ = 0;              // of those, as was said

  // Works by their number; those before `ended_` are over.
  std::array<Posted, kWorksMax> works_{};
  std::uint64_t posted_ = 0;
  std::uint64_t ended_ = 0;
  std::uint32_t unreported_ = 0;  // sends since the last work with a report
  std::uint32_t reads_out_ = 0;
  std::uint64_t bytes_out_ = 0;
  RdmaWindow window_;
  std::array<Work, kBatch> batch_{};
  std::size_t batch_count_ = 0;
};

}  // namespace simm::transport
