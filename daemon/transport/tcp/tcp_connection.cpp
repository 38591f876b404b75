#include "daemon/transport/tcp/tcp_connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/transport/tcp/frame_codec.h"
#include "simm/check.h"

namespace simm::transport {

namespace {

// Nothing is wrong with the connection: the same is asked for again.
bool is_passing(std::int32_t result) noexcept {
  return result == -EAGAIN || result == -EINTR || result == -ECANCELED;
}

// Which of a send and a receive hears of the peer's end first depends on their order alone.
LinkLoss loss_by(std::int32_t result) noexcept {
  return result == 0 || result == -ECONNRESET || result == -EPIPE ? LinkLoss::closed
                                                                  : LinkLoss::io_error;
}

// The kernel can not send this without copies; nothing was sent.
bool is_refused(std::int32_t result) noexcept {
  return result == -EINVAL || result == -EOPNOTSUPP || result == -ENOMEM || result == -ENOBUFS;
}

}  // namespace

bool TcpConnection::open(TcpLink link, IoReadyList& ready, base::TimeNs now_ns) noexcept {
  SIMM_CHECK(state_ == State::free);
  link_ = std::move(link);
  socket_.descriptor = link_.socket.get();
  socket_.ready = &ready;
  if (!io_.set_up(socket_) || !io_.open(socket_)) {
    link_.socket.reset();
    return false;
  }
  rx_.begin(link_.keys.receive);
  seal_ = FrameSeal(link_.keys.send);
  heard_ns = received_ns = now_ns;
  sent_bytes_ = 0;
  switch (io_.uncopied_sends()) {
    case UncopiedSends::never:
      uncopied_ = Uncopied::never;
      break;
    case UncopiedSends::where_useful:
      uncopied_ = Uncopied::unknown;
      break;
    case UncopiedSends::always:
      uncopied_ = Uncopied::always;
      break;
  }
  state_ = State::open;
  return true;
}

void TcpConnection::close() noexcept {
  SIMM_CHECK(is_quiet());
  io_.close(socket_);
  socket_.base::ListLink<IoReadyTag>::unlink();
  socket_.received = socket_.sent = socket_.send_uncopied = socket_.was_copied = false;
  socket_.released = 0;
  link_.socket.reset();
  rx_.reset();
  tx_.reset();
  state_ = State::free;
}

void TcpConnection::fail(LinkLoss cause) noexcept {
  if (state_ != State::open) return;
  state_ = State::closing;
  loss_ = cause;
  io_.shut_down(socket_);
  io_.cancel(socket_);
}

bool TcpConnection::stop() noexcept {
  fail(LinkLoss::dropped);
  if (!is_quiet()) return false;
  if (!is_free()) close();
  return true;
}

int TcpConnection::serve(FrameHandler& handler, PayloadOwner& owner, base::TimeNs now_ns) noexcept {
  int work = 0;
  if (std::exchange(socket_.sent, false)) {
    take_sent(owner);
    ++work;
  }
  if (socket_.released != 0) {
    take_released(owner);
    ++work;
  }
  if (std::exchange(socket_.received, false)) {
    take_received(handler, now_ns);
    ++work;
  }
  return work;
}

void TcpConnection::take_sent(PayloadOwner& owner) noexcept {
  if (state_ != State::open) return;
  const std::int32_t result = socket_.send_result;
  if (result > 0) {
    counters_.sent_bytes.add(static_cast<std::uint32_t>(result));
    sent_bytes_ += static_cast<std::uint32_t>(result);
    return tx_.take_sent(static_cast<std::uint32_t>(result), owner);
  }
  if (result == -EFAULT && tx_.take_fault(owner)) return;
  if (socket_.send_uncopied && is_refused(result)) {
    uncopied_ = Uncopied::never;
    return;
  }
  if (!is_passing(result)) fail(loss_by(result));
}

void TcpConnection::take_released(PayloadOwner& owner) noexcept {
  const std::uint32_t released = std::exchange(socket_.released, 0u);
  const bool was_copied = std::exchange(socket_.was_copied, false);
  if (was_copied) counters_.copied_after_all.add();
  if (state_ != State::open) return;
  if (was_copied && uncopied_ != Uncopied::always) {
    uncopied_ = Uncopied::never;
  } else if (uncopied_ == Uncopied::asking) {
    uncopied_ = Uncopied::useful;
    SocketIo::lift_unsent_bound(socket_);
  }
  tx_.release(released, owner);
}

std::uint64_t TcpConnection::acknowledged_bytes() const noexcept {
  return sent_bytes_ - std::min(sent_bytes_, io_.unacknowledged_bytes(socket_));
}

bool TcpConnection::sends_uncopied(std::uint64_t payload_bytes) const noexcept {
  // To pin shorter ones costs more than to copy them.
  constexpr std::uint64_t kLeastBytes = 32 * 1024;
  const bool may = uncopied_ == Uncopied::unknown || uncopied_ == Uncopied::useful ||
                   uncopied_ == Uncopied::always;
  return may && payload_bytes >= kLeastBytes && tx_.can_hold();
}

void TcpConnection::take_received(FrameHandler& handler, base::TimeNs now_ns) noexcept {
  if (state_ != State::open) return;
  const std::int32_t result = socket_.receive_result;
  if (result > 0) {
    heard_ns = received_ns = now_ns;
    counters_.received_bytes.add(static_cast<std::uint32_t>(result));
    if (!rx_.take(static_cast<std::uint32_t>(result), handler)) fail(LinkLoss::protocol);
  } else if (result == -EFAULT) {
    if (!rx_.take_fault(handler)) fail(LinkLoss::io_error);
  } else if (!is_passing(result)) {
    fail(loss_by(result));
  }
}

void TcpConnection::resume(FrameHandler& handler) noexcept {
  if (state_ == State::open && !rx_.take(0, handler)) fail(LinkLoss::protocol);
}

void TcpConnection::start(const FrameHandler& handler) noexcept {
  if (state_ != State::open) return;
  if (!socket_.receiving && !socket_.received && !handler.is_paused()) {
    rx_.prepare(socket_);
    io_.receive(socket_);
  }
  if (!socket_.sending && !socket_.sent && !tx_.empty()) {
    socket_.send_uncopied = sends_uncopied(tx_.prepare(socket_));
    if (socket_.send_uncopied) {
      socket_.send_number = tx_.hold();
      counters_.uncopied_sends.add();
      if (uncopied_ == Uncopied::unknown) uncopied_ = Uncopied::asking;
    }
    io_.send(socket_);
  }
}

bool TcpConnection::add_bare(const wire::FrameHeader& header) noexcept {
  std::byte* const to = tx_.reserve(sizeof header);
  if (to == nullptr) return false;
  seal_header(header, seal_, to);
  tx_.commit(sizeof header);
  return true;
}

}  // namespace simm::transport
