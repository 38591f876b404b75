// RdmaResponderLink: the serving side of one link: requests that came over it, and their moves.
//
// A pull is READ from the requester's memory into the server's extent, and digested behind; a push
// is WRITTEN from the extent. Both go piece by piece; tenants take turns, and the requests of
// each. Short pages are copied from and to messages. A page is over when its last piece was
// acknowledged, so a reply is always behind its data. Owned by a RdmaResponder. Thread: the
// server's data agent. No allocation after construction.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/agent.h"
#include "daemon/base/hash.h"
#include "daemon/base/lazy_array.h"
#include "daemon/transport/link_serving.h"
#include "daemon/transport/rdma/rdma_channel.h"
#include "daemon/transport/rdma/rdma_incoming.h"
#include "daemon/transport/rdma/registration/memory_keys.h"
#include "daemon/transport/tenant_turns.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

// What all links of one responder share.
struct RdmaResponderShared : LinkServingShared {
  const RdmaResponderConfig& config;
  const MemoryKeys& keys;
  RdmaCounters counters;
};

class RdmaResponderLink final : private MessageHandler {
public:
  using Arrived = RdmaIncoming;

  explicit RdmaResponderLink(RdmaResponderShared& shared);

  // Always takes the link: its requester says later whose it is.
  [[nodiscard]] bool open(std::unique_ptr<RdmaLink>& link, base::TimeNs now_ns) noexcept;
  [[nodiscard]] RdmaChannel& path() noexcept { return channel_; }
  [[nodiscard]] const RdmaChannel& path() const noexcept { return channel_; }
  [[nodiscard]] LinkServing& serving() noexcept { return serving_; }

  // The server's calls, of a request on this link.
  void pull(RdmaIncoming& incoming, std::uint16_t page, std::span<std::byte> extent) noexcept;
  void push(RdmaIncoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept;
  void reply(RdmaIncoming& incoming, std::span<const PageReply> pages) noexcept;

  // Takes what has ended or arrived; makes the upcalls.
  void serve(const Completion& completion, base::TimeNs now_ns) noexcept {
    channel_.serve(completion, *this, now_ns);
  }
  // Posts, digests and sends what there is; how much that was.
  int run() noexcept;
  // Of an open link with moves under way. True: for peer_silence_ns no READ or WRITE of them
  // ended; or their request's deadline is that long ago. Pings say nothing about that.
  [[nodiscard]] bool is_stalled(base::TimeNs now_ns) noexcept;
  // True: memory that moves wait for is not registered yet, and nobody wakes us.
  [[nodiscard]] bool waits_for_keys() const noexcept { return waits_for_keys_; }
  // Of a closing channel: ends every move, tells the server, and gives the link back.
  [[nodiscard]] std::unique_ptr<RdmaLink> finish_closing() noexcept;

private:
  enum class Step : std::uint8_t { done, blocked, waiting };

  [[nodiscard]] bool on_part(const wire::Envelope& envelope,
                             std::span<const std::byte> part) noexcept override;
  void on_moved(std::uint32_t tag, std::uint32_t bytes) noexcept override;

  [[nodiscard]] bool on_request_part(const wire::Envelope& envelope,
                                     std::span<const std::byte> part) noexcept;
  [[nodiscard]] bool end_request(RdmaIncoming& incoming) noexcept;
  [[nodiscard]] bool take_roster(std::span<const std::byte> part) noexcept;
  [[nodiscard]] bool take_stripe(const wire::Envelope& envelope,
                                 std::span<const std::byte> part) noexcept;
  [[nodiscard]] bool take_cancel(const wire::Envelope& envelope) noexcept;

  // Sending and moving (rdma_responder_link_moves.cpp).
  [[nodiscard]] bool send_pong() noexcept;
  void list(RdmaIncoming& incoming) noexcept;
  RdmaIncoming::PageMove& begin_move(RdmaIncoming& incoming, std::uint16_t page, MoveKind kind,
                                     std::byte* memory, std::uint64_t length) noexcept;
  Step step(RdmaIncoming& incoming) noexcept;
  Step send_reply_part(RdmaIncoming& incoming) noexcept;
  Step move_piece(RdmaIncoming& incoming) noexcept;
  Step post_piece(RdmaIncoming& incoming, std::uint16_t page) noexcept;
  [[nodiscard]] bool is_inline(const RdmaIncoming& incoming, std::uint16_t page) const noexcept;
  void copy_inline(RdmaIncoming& incoming, std::uint16_t page) noexcept;
  void digest_some(RdmaIncoming& incoming, std::uint16_t page) noexcept;
  void end_cancelled(RdmaIncoming& incoming) noexcept;
  void end_move(RdmaIncoming& incoming, std::uint16_t page, MoveResult result) noexcept;

  RdmaResponderShared& shared_;
  RdmaChannel channel_;
  base::LazyArray<RdmaIncoming> slots_;
  // Of the half digested page of a slot: a server may have both.
  std::unique_ptr<base::PayloadDigest[]> pull_digests_;
  std::unique_ptr<base::PayloadDigest[]> push_digests_;
  TenantTurns work_;                 // slots with something to do
  std::uint64_t stepped_bytes_ = 0;  // sent, posted, copied or digested by the last step
  LinkServing serving_;
  bool owes_pong_ = false;
  bool owes_long_pong_ = false;
  bool waits_for_keys_ = false;
};

}  // namespace simm::transport
