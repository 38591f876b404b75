// TcpConnection: one socket with its receiving and sending halves, and its end. It knows frames but
// not requests; a RequesterLink or ResponderLink owns it and is its handler.
//
// fail() is the fence: the socket is shut down, what the kernel still has under way is cancelled
// (and what it holds to be sent again is thrown away), and only when is_quiet() does nothing touch
// any memory for this connection any more. Thread: the data agent. No allocation after
// construction.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "daemon/transport/tcp/rx_stream.h"
#include "daemon/transport/tcp/socket_io.h"
#include "daemon/transport/tcp/tcp_counters.h"
#include "daemon/transport/tcp/tcp_link.h"
#include "daemon/transport/tcp/tx_queue.h"

namespace simm::transport {

class TcpConnection {
public:
  TcpConnection(SocketIo& io, TcpCounters& counters) noexcept : io_(io), counters_(counters) {}

  // False: out of resources; the link is gone.
  [[nodiscard]] bool open(TcpLink link, IoReadyList& ready, base::TimeNs now_ns) noexcept;
  // After is_quiet(): gives everything back. The connection may be opened again.
  void close() noexcept;

  [[nodiscard]] bool is_open() const noexcept { return state_ == State::open; }
  [[nodiscard]] bool is_closing() const noexcept { return state_ == State::closing; }
  [[nodiscard]] bool is_free() const noexcept { return state_ == State::free; }
  // The first cause stays. Nothing happens unless it is open.
  void fail(LinkLoss cause) noexcept;
  [[nodiscard]] bool is_quiet() const noexcept { return !socket_.busy(); }
  // At the end of its owner: fails, and closes when it is quiet (true).
  [[nodiscard]] bool stop() noexcept;

  // Takes what has arrived and what was sent; calls the handlers. How much that was.
  int serve(FrameHandler& handler, PayloadOwner& owner, base::TimeNs now_ns) noexcept;
  // Goes on after a pause of the handler.
  void resume(FrameHandler& handler) noexcept;
  // Asks for what is to be received and sent next.
  void start(const FrameHandler& handler) noexcept;

  // Queues a frame without body. False: no room now.
  [[nodiscard]] bool add_bare(const wire::FrameHeader& header) noexcept;
  [[nodiscard]] TxQueue& tx() noexcept { return tx_; }
  // Of the frames that go out: in the order in which they are queued.
  [[nodiscard]] FrameSeal& seal() noexcept { return seal_; }
  // Of a body that came.
  [[nodiscard]] std::uint64_t received_digest(const void* body, std::size_t bytes) const noexcept {
    return rx_.seal().digest(body, bytes);
  }

  [[nodiscard]] const TcpLink& link() const noexcept { return link_; }
  [[nodiscard]] LinkLost lost() const noexcept {
    return {link_.link, link_.peer, link_.shard, loss_};
  }
  [[nodiscard]] IoSocket& socket() noexcept { return socket_; }

  // Bytes that the peer's machine has acknowledged. For rare looks.
  [[nodiscard]] std::uint64_t acknowledged_bytes() const noexcept;

  // `away_ns` of the silence until now were not the peer's.
  void forgive(base::TimeNs away_ns, base::TimeNs now_ns) noexcept {
    heard_ns += std::min(away_ns, now_ns > heard_ns ? now_ns - heard_ns : 0);
  }
  // When something was received last, or the peer was last known to be alive for another reason.
  base::TimeNs heard_ns = 0;
  base::TimeNs received_ns = 0;  // when something was received last

private:
  enum class State : std::uint8_t { free, open, closing };

  void take_received(FrameHandler& handler, base::TimeNs now_ns) noexcept;
  void take_sent(PayloadOwner& owner) noexcept;
  void take_released(PayloadOwner& owner) noexcept;
  [[nodiscard]] bool sends_uncopied(std::uint64_t payload_bytes) const noexcept;

  // Whether long payloads are sent without copies. One send asks the kernel whether it could do
  // without (`asking`), and those after it do what it answered.
  enum class Uncopied : std::uint8_t { never, unknown, asking, useful, always };

  SocketIo& io_;
  TcpCounters& counters_;
  State state_ = State::free;
  LinkLoss loss_ = LinkLoss::closed;
  Uncopied uncopied_ = Uncopied::never;
  TcpLink link_;
  IoSocket socket_;
  RxStream rx_;
  TxQueue tx_;
  FrameSeal seal_;
  std::uint64_t sent_bytes_ = 0;  // that the kernel took
};

}  // namespace simm::transport
