// ResponderLink: the serving side of one connection: requests that came over it, and their moves.
//
// A pull is announced to the requester, whose data frames are then received straight into the
// server's extent and hashed right behind. A push is hashed chunk by chunk and sent from the
// extent; it is over when the kernel has taken all of it. Tenants take turns, and the requests of
// each, a chunk each. Owned by a TcpResponder. Thread: the server's data agent. No allocation after
// construction.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/agent.h"
#include "daemon/base/hash.h"
#include "daemon/base/lazy_array.h"
#include "daemon/transport/link_serving.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "daemon/transport/tcp/tcp_connection.h"
#include "daemon/transport/tcp/tcp_incoming.h"
#include "daemon/transport/tenant_turns.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

// What all links of one responder share.
struct ResponderLinkShared : LinkServingShared {
  SocketIo& io;
  TcpCounters counters;
};

class ResponderLink final : private FrameHandler, private PayloadOwner {
public:
  using Arrived = TcpIncoming;

  explicit ResponderLink(ResponderLinkShared& shared);

  [[nodiscard]] bool open(TcpLink link, IoReadyList& ready, base::TimeNs now_ns) noexcept;
  [[nodiscard]] TcpConnection& path() noexcept { return connection_; }
  [[nodiscard]] const TcpConnection& path() const noexcept { return connection_; }
  [[nodiscard]] LinkServing& serving() noexcept { return serving_; }

  // The server's calls, of a request on this link.
  void pull(TcpIncoming& incoming, std::uint16_t page, std::span<std::byte> extent) noexcept;
  // The digest is taken in any case: the requester compares it.
  void push(TcpIncoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept;
  void reply(TcpIncoming& incoming, std::span<const PageReply> pages) noexcept;

  // Takes what has arrived; makes the upcalls.
  int serve(base::TimeNs now_ns) noexcept;
  // Queues what there is to send, copies what is there already, and asks for more.
  int run(base::TimeNs) noexcept;  // of no use here: the set runs links of both ends
  // Of an open link with moves under way. True: for peer_silence_ns no payload got on; or their
  // request's deadline is that long ago. Pings say nothing about that.
  [[nodiscard]] bool is_stalled(base::TimeNs now_ns) noexcept;
  // Of a closing connection: true when nothing is under way any more and the server was told.
  [[nodiscard]] bool finish_closing() noexcept;
  // Breaks the connection; true when the kernel has let go of all memory. Nobody is told.
  [[nodiscard]] bool stop() noexcept { return connection_.stop(); }

private:
  enum class Step : std::uint8_t { done, blocked };

  // Receiving.
  [[nodiscard]] bool on_frame(const wire::FrameHeader& header,
                              std::byte*& target) noexcept override;
  [[nodiscard]] bool on_piece(std::byte* at, std::uint32_t bytes,
                              const std::byte* staged) noexcept override;
  [[nodiscard]] bool on_fault() noexcept override { return false; }  // all memory is private
  [[nodiscard]] bool on_frame_end() noexcept override;
  [[nodiscard]] bool is_paused() const noexcept override { return pongs_due_ >= kPongsMax; }
  [[nodiscard]] bool begin_request(std::byte*& target) noexcept;
  [[nodiscard]] bool begin_data(std::byte*& target) noexcept;
  [[nodiscard]] bool end_request() noexcept;
  void end_data(TcpIncoming& incoming) noexcept;
  [[nodiscard]] bool end_failed(TcpIncoming& incoming) noexcept;
  void take_cancel(TcpIncoming& incoming) noexcept;

  // Sending (responder_link_send.cpp).
  Step step(TcpIncoming& incoming) noexcept;
  Step queue_reply(TcpIncoming& incoming) noexcept;
  Step queue_pulls(TcpIncoming& incoming) noexcept;
  Step queue_chunk(TcpIncoming& incoming) noexcept;
  void copy_inline(TcpIncoming& incoming, std::uint16_t page) noexcept;
  [[nodiscard]] bool queue_data(TcpIncoming& incoming, std::uint16_t page) noexcept;
  void end_push(TcpIncoming& incoming, std::uint16_t page) noexcept;
  void on_payload_sent(std::uint32_t tag) noexcept override;
  int send_pongs() noexcept;

  void list(TcpIncoming& incoming) noexcept;
  [[nodiscard]] bool has_acknowledged() noexcept;
  void end_move(TcpIncoming& incoming, std::uint16_t page, MoveResult result) noexcept;

  static constexpr std::uint32_t kPongsMax = 64;

  ResponderLinkShared& shared_;
  TcpConnection connection_;
  base::LazyArray<TcpIncoming> slots_;
  // Of the half received (pull) and half sent (push) page of a slot: a server may have both.
  std::unique_ptr<base::PayloadDigest[]> pull_digests_;
  std::unique_ptr<base::PayloadDigest[]> push_digests_;
  TenantTurns work_;  // slots with something to do
  LinkServing serving_;
  bool has_looked_ = false;         // at the kernel, since the last progress
  std::uint64_t acknowledged_ = 0;  // at that look at the kernel
  std::uint32_t pongs_due_ = 0;
  wire::FrameHeader frame_{};  // that is being received
  wire::RosterBody roster_{};  // likewise
};

}  // namespace simm::transport
