#include "daemon/peers/cluster_channel.h"

#include <algorithm>
#include <array>
#include <utility>

namespace simm::control {
namespace {

constexpr int kReadsPerTurn = 32;
constexpr std::size_t kReadBytes = 16384;

Error broken(const TcpMoved& moved) {
  if (moved.cause == 0) return {Status::unreachable, "the peer hung up"};
  return {Status::unreachable, system_error("the connection", moved.cause).context};
}

}  // namespace

ClusterChannel::ClusterChannel(ClusterAccess& access, ipc::UniqueFd socket,
                               const cluster::HelloResult& hello, ClusterChannelEvents& events,
                               std::uint64_t number, ReadySet* readers)
    : access_(access),
      hello_(hello),
      events_(events),
      number_(number),
      socket_(std::move(socket)),
      readers_(readers),
      ready_(access.io),
      soon_(access.io),
      sealer_(hello.keys.send),
      opener_(hello.keys.receive) {
  if (watch()) return;
  break_with({Status::io_error, "the socket can not be watched"});
}

bool ClusterChannel::watch() {
  if (readers_ != nullptr) return is_in_readers_ = readers_->add(socket_.get(), *this);
  if (!ready_.watch(socket_.get())) return false;
  read_when_readable();
  return true;
}

void ClusterChannel::read_when_readable() {
  ready_.when_readable([this] {
    const std::weak_ptr<bool> alive = alive_;
    read();
    if (!alive.expired() && !broken_) read_when_readable();
  });
}

void ClusterChannel::stop_watching() {
  ready_.stop();
  if (std::exchange(is_in_readers_, false)) readers_->remove(socket_.get(), *this);
}

Status ClusterChannel::send(std::span<const std::byte> payload) {
  if (broken_) return Status::invalid_state;
  if (payload.size() + cluster::kFrameOverheadBytes > kChannelQueueBytesMax - queued_bytes_) {
    return payload.size() > cluster::kFramePayloadBytesMax ? Status::invalid_argument
                                                           : Status::no_space;
  }
  auto frame = sealer_.seal(payload);
  if (!frame) return frame.status();
  queued_bytes_ += frame->size();
  queue_.push_back(std::move(*frame));
  if (!writing_) write();
  return Status::ok;
}

void ClusterChannel::write() {
  while (!queue_.empty()) {
    const std::span<const std::byte> rest = std::span(queue_.front()).subspan(first_sent_bytes_);
    const TcpMoved sent = send_tcp(socket_.get(), rest);
    if (sent.result == TcpResult::hung_up) return break_with(broken(sent));
    if (sent.result == TcpResult::would_block) {
      writing_ = true;
      return write_when_writable();
    }
    first_sent_bytes_ += sent.bytes;
    queued_bytes_ -= sent.bytes;
    if (first_sent_bytes_ == queue_.front().size()) {
      queue_.pop_front();
      first_sent_bytes_ = 0;
    }
  }
}

// A socket that is read with others is watched by itself while it takes nothing.
void ClusterChannel::write_when_writable() {
  if (readers_ != nullptr && !ready_.watch(socket_.get())) {
    return break_with({Status::io_error, "the socket can not be watched"});
  }
  ready_.when_writable([this] {
    writing_ = false;
    if (readers_ != nullptr) ready_.stop();
    write();
  });
}

// Most messages are short, and one call of the kernel brings a whole one, or several. A long one
// takes many calls. After messages, and after many calls, others have their turn.
bool ClusterChannel::read() {
  alignas(std::uint64_t) std::array<std::byte, kReadBytes> buffer;
  Taken taken = Taken::part;
  for (int reads = 0; reads < kReadsPerTurn && taken == Taken::part; ++reads) {
    const TcpMoved got = receive_tcp(socket_.get(), buffer);
    if (got.result == TcpResult::hung_up) {
      break_with(broken(got));
      return false;
    }
    if (got.result == TcpResult::would_block) return false;
    taken = take_bytes(std::span(buffer).first(got.bytes));
    if (taken == Taken::over) return false;
    // Nothing more was there. What has come since then makes the socket readable.
    if (got.bytes < buffer.size()) return false;
  }
  return true;
}

ClusterChannel::Taken ClusterChannel::take_bytes(std::span<const std::byte> bytes) {
  const std::weak_ptr<bool> alive = alive_;
  Taken taken = Taken::part;
  while (!bytes.empty()) {
    if (const auto whole = opener_.open_in_place(bytes); !whole.empty()) {
      taken = Taken::messages;
      events_.on_message(*this, whole);
      if (alive.expired() || broken_) return Taken::over;
      continue;
    }
    const std::size_t now = std::min(bytes.size(), opener_.wanted());
    if (opener_.feed(bytes.first(now)) != Status::ok) {
      break_with({Status::corrupt, "what came is no frame of this connection"});
      return Taken::over;
    }
    bytes = bytes.subspan(now);
    const auto message = opener_.take();
    if (!message) continue;
    taken = Taken::messages;
    events_.on_message(*this, *message);
    if (alive.expired() || broken_) return Taken::over;
  }
  return taken;
}

void ClusterChannel::break_with(Error cause) {
  if (broken_) return;
  broken_ = true;
  stop_watching();
  queue_.clear();
  queued_bytes_ = 0;
  access_.errors.record("cluster.channel", cause.status, hello_.peer.name + ": " + cause.context);
  // Not from in here: that may be a call of the owner's.
  soon_.after(0, [this, cause = std::move(cause)] { events_.on_closed(*this, cause); });
}

}  // namespace simm::control
