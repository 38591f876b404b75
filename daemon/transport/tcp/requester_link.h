// RequesterLink: the asking side of one connection: requests out on it, their payloads both ways,
// its life signs, and the fence at its end.
//
// Payload: the kernel takes a put's page from the client's slice, and puts a get's page there,
// where that is mapped. The former is digested right before (put_sender.h), the latter right
// behind. Other memory (foreign) goes through private blocks and the Mover. An ended link touches
// no block and no slice. Owned by a TcpRequester. Thread: the engine's data agent. No allocation
// after construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "daemon/base/free_slots.h"
#include "daemon/base/hash.h"
#include "daemon/base/lazy_array.h"
#include "daemon/transport/index_queue.h"
#include "daemon/transport/tcp/put_sender.h"
#include "daemon/transport/tcp/requester_link_shared.h"
#include "daemon/transport/tcp/tcp_connection.h"
#include "daemon/transport/tcp/tcp_posted.h"
#include "daemon/transport/tenant_turns.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class RequesterLink final : private FrameHandler, private PayloadOwner {
public:
  explicit RequesterLink(RequesterLinkShared& shared);

  [[nodiscard]] bool open(TcpLink link, IoReadyList& ready, base::TimeNs now_ns) noexcept;
  [[nodiscard]] TcpConnection& path() noexcept { return connection_; }
  [[nodiscard]] const TcpConnection& path() const noexcept { return connection_; }

  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
  // Changes whenever payload or an answer has moved; life signs are none.
  [[nodiscard]] std::uint64_t moved() const noexcept { return moved_; }
  [[nodiscard]] std::uint32_t credits() const noexcept { return free_.count(); }
  // Only with credit, on an open connection.
  void post(RequestToken token, const Request& request) noexcept;
  // False: that request is not on this link.
  bool cancel(RequestToken token) noexcept;
  bool abandon(RequestToken token) noexcept;
  bool reset(RequestToken culprit) noexcept;

  // Takes what has arrived; makes the upcalls.
  int serve(base::TimeNs now_ns) noexcept;
  // Queues what there is to send, and asks for more.
  int run(base::TimeNs now_ns) noexcept;
  // Sends a life sign when one is due. `quiet`: the peer's is late; `silent`: it is overdue.
  enum class Life : std::uint8_t { well, quiet, silent };
  [[nodiscard]] Life check_life(base::TimeNs now_ns) noexcept;
  // A link without requests asks its peer for a life sign: another link is quiet.
  void probe(base::TimeNs now_ns) noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;
  // Of a closing connection: true when nothing is under way any more and every request was fenced.
  [[nodiscard]] bool finish_closing() noexcept;
  // At the end of its owner: ends all, and is true when nothing is under way.
  [[nodiscard]] bool stop() noexcept {
    const bool have_moves_ended = stop_moves();
    return connection_.stop() && have_moves_ended;
  }

private:
  using Step = PutSender::Step;

  Step step(std::uint32_t slot) noexcept;
  [[nodiscard]] bool send_roster() noexcept;
  Step encode(std::uint32_t slot) noexcept;
  void list(std::uint32_t slot) noexcept;
  void on_payload_sent(std::uint32_t tag) noexcept override;
  void on_payload_vanished(std::uint32_t tag) noexcept override;

  // Receiving (requester_link_receive.cpp).
  [[nodiscard]] bool on_frame(const wire::FrameHeader& header,
                              std::byte*& target) noexcept override;
  [[nodiscard]] bool on_piece(std::byte* at, std::uint32_t bytes,
                              const std::byte* staged) noexcept override;
  [[nodiscard]] bool on_fault() noexcept override;
  [[nodiscard]] bool on_frame_end() noexcept override;
  [[nodiscard]] bool is_paused() const noexcept override { return is_copying_out_; }
  [[nodiscard]] bool begin_data(TcpPosted& posted, std::byte*& target) noexcept;
  [[nodiscard]] bool end_data(TcpPosted& posted) noexcept;
  [[nodiscard]] bool end_pull(TcpPosted& posted) noexcept;
  [[nodiscard]] bool end_reply(TcpPosted& posted) noexcept;
  [[nodiscard]] static bool check_replies(TcpPosted& posted) noexcept;
  void spoil_page(TcpPosted& posted, std::uint16_t page, Status status) noexcept;
  [[nodiscard]] Status move_staged(const memory::Slice& slice, std::uint64_t place,
                                   const std::byte* staged, std::uint32_t bytes) noexcept;
  int copy_out(base::TimeNs now_ns) noexcept;
  void end_copy_out(Status status) noexcept;

  void begin_copy_out(const memory::Slice& slice, std::uint64_t received) noexcept;

  int fence_abandoned() noexcept;
  void fence_alone(std::uint32_t slot) noexcept;
  [[nodiscard]] bool is_filling(std::uint32_t slot) const noexcept;
  [[nodiscard]] bool asks_while_idle(base::TimeNs now_ns) noexcept;
  [[nodiscard]] base::TimeNs idle_ping_due_ns() const noexcept {
    return std::max(pinged_ns_, connection_.received_ns) + shared_.config.idle_ping_ns;
  }
  // Nobody waits for an idle link, so its peer gets more time.
  [[nodiscard]] base::TimeNs silence_ns() const noexcept {
    return shared_.config.peer_detection_ns * (in_flight_ > 0 ? 1 : kSilentLinkTimes);
  }
  [[nodiscard]] bool gets_payload_through(base::TimeNs now_ns) noexcept;
  [[nodiscard]] bool withholds_an_answer(base::TimeNs now_ns) const noexcept;

  [[nodiscard]] std::uint32_t find(RequestToken token) const noexcept;
  void release(std::uint32_t slot) noexcept;
  [[nodiscard]] bool stop_moves() noexcept;

  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

  RequesterLinkShared& shared_;
  TcpConnection connection_;
  mutable base::LazyArray<TcpPosted> slots_;
  std::unique_ptr<base::PayloadDigest[]> digests_;  // of the half sent or received page of a slot
  base::FreeSlots free_;
  std::uint32_t in_flight_ = 0;
  std::uint32_t fenced_count_ = 0;  // of them, requests that wait for the peer's last word only
  TenantTurns work_;                // slots with something to send
  IndexQueue cancels_;              // slots whose cancel frame is due
  IndexQueue abandoned_;            // slots that are to be fenced alone
  bool waits_for_copies_ = false;   // made elsewhere, with nobody to wake us
  base::TimeNs pinged_ns_ = 0;
  base::TimeNs asked_ns_ = 0;       // since when there have been requests, or is_asking_
  bool is_asking_ = false;          // whether the peer lives, for no request
  base::TimeNs looked_ns_ = 0;      // the beginning of the silence of the last look
  std::uint64_t acknowledged_ = 0;  // bytes, at the last look
  std::uint64_t moved_ = 0;
  std::uint32_t place_ = OwnRoster::kNone;  // in it

  PutSender puts_;

  // The frame that is being received.
  wire::FrameHeader frame_{};
  bool in_frame_ = false;
  bool has_client_target_ = false;
  std::unique_ptr<std::byte[]> body_;   // of control frames
  base::LazyArray<std::byte> foreign_;  // payload on its way to foreign memory
  base::PayloadDigest scratch_digest_;  // what a Mover wants and nobody reads
  bool is_copying_out_ = false;         // foreign_ -> the slice, by copy_out_
  bool is_stopping_ = false;
  base::TimeNs copying_since_ns_ = 0;
  Move copy_out_;
};

}  // namespace simm::transport
