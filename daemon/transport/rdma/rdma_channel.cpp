#include "daemon/transport/rdma/rdma_channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/transport/rdma/message_codec.h"
#include "ipc/cursor.h"
#include "simm/check.h"

namespace simm::transport {

using wire::Envelope;
using wire::MessageKind;

namespace {

LinkLoss loss_by(WorkStatus status) noexcept {
  switch (status) {
    case WorkStatus::peer_lost:
      return LinkLoss::silent;
    case WorkStatus::remote_access:
    case WorkStatus::remote_failure:
    case WorkStatus::receiver_full:
      return LinkLoss::protocol;
    default:
      return LinkLoss::io_error;
  }
}

}  // namespace

void RdmaChannel::open(std::unique_ptr<RdmaLink> link, base::TimeNs now_ns,
                       base::TimeNs payload_time_ns_max) noexcept {
  SIMM_CHECK(is_free());
  link_ = std::move(link);
  state_ = State::open;
  heard_ns = now_ns;
  sent_seal_ = FrameSeal(link_->keys.send);
  received_seal_ = FrameSeal(link_->keys.receive);
  reads_max_ = link_->queue_pair->reads_max();
  free_.reset();
  sent_ = granted_ = received_ = told_ = 0;
  posted_ = ended_ = bytes_out_ = 0;
  unreported_ = reads_out_ = 0;
  window_.open(payload_time_ns_max);
  batch_count_ = 0;
  for (std::uint64_t i = 0; i < kReceives; ++i) post_receive(i);
}

void RdmaChannel::fail(LinkLoss cause) noexcept {
  if (!is_open()) return;
  state_ = State::closing;
  link_->loss = cause;
  link_->queue_pair->fail();
}

bool RdmaChannel::try_fence() noexcept {
  return link_->queue_pair->try_destroy();
}

std::unique_ptr<RdmaLink> RdmaChannel::close() noexcept {
  SIMM_CHECK(is_closing());
  link_->queue_pair->destroy();
  state_ = State::free;
  return std::move(link_);
}

void RdmaChannel::forgive(base::TimeNs away_ns, base::TimeNs now_ns) noexcept {
  heard_ns += std::min(away_ns, now_ns > heard_ns ? now_ns - heard_ns : 0);
}

std::byte* RdmaChannel::receive_at(std::uint64_t buffer) const noexcept {
  SIMM_CHECK(buffer < kReceives);
  return link_->memory.get() + buffer * kPartBufferBytes;
}

std::byte* RdmaChannel::send_at(std::uint32_t buffer) const noexcept {
  SIMM_CHECK(buffer < kSendBuffers);
  return link_->memory.get() + std::size_t{kReceives + buffer} * kPartBufferBytes;
}

void RdmaChannel::post_receive(std::uint64_t buffer) noexcept {
  const LocalPart part{receive_at(buffer), kPartBufferBytes, link_->registration->local_key};
  if (!link_->queue_pair->post_receive(buffer, part)) fail(LinkLoss::io_error);
}

// ---- what has ended ----

void RdmaChannel::serve(const Completion& completion, MessageHandler& handler,
                        base::TimeNs now_ns) noexcept {
  if (!is_open()) return;
  if (completion.status != WorkStatus::ok) {
    // Of a receive: the other end is gone, or this queue pair broke for another reason.
    return fail(completion.is_receive ? LinkLoss::closed : loss_by(completion.status));
  }
  if (completion.is_receive) return take_message(completion, handler, now_ns);
  end_until(completion.id, handler, now_ns);
}

void RdmaChannel::take_message(const Completion& completion, MessageHandler& handler,
                               base::TimeNs now_ns) noexcept {
  heard_ns = now_ns;
  ++received_;
  counters_.received_parts.add(1);
  const std::byte* const at = receive_at(completion.id);
  Envelope envelope;
  const bool is_fine = completion.bytes <= kPartBufferBytes &&
                       open_envelope({at, completion.bytes}, received_seal_, envelope) &&
                       take_credit(envelope.received);
  if (!is_fine) return fail(LinkLoss::protocol);
  link_->was_heard = true;
  const bool has_more = static_cast<MessageKind>(envelope.kind) != MessageKind::credit;
  // SAFETY: open_envelope() proved that the part lies behind its envelope.
  if (has_more && !handler.on_part(envelope, {at + sizeof envelope, envelope.part_bytes})) {
    fail(LinkLoss::protocol);
  }
  if (is_open()) post_receive(completion.id);
}

// What it has taken never shrinks and is never more than was sent.
bool RdmaChannel::take_credit(std::uint32_t received) noexcept {
  if (ipc::cursor_distance(sent_, received) > ipc::cursor_distance(sent_, granted_)) return false;
  granted_ = received;
  return true;
}

void RdmaChannel::end_until(std::uint64_t id, MessageHandler& handler,
                            base::TimeNs now_ns) noexcept {
  SIMM_CHECK(id < posted_);
  while (ended_ <= id && is_open()) {
    const Posted posted = works_[ended_ % kWorksMax];
    ++ended_;
    if (posted.kind == WorkKind::send) {
      free_.give(posted.tag);
      continue;
    }
    window_.on_ended(posted.bytes, bytes_out_, posted.at_ns, now_ns);
    bytes_out_ -= posted.bytes;
    if (posted.kind == WorkKind::read) {
      --reads_out_;
      counters_.read_bytes.add(posted.bytes);
    } else {
      counters_.written_bytes.add(posted.bytes);
    }
    handler.on_moved(posted.tag, posted.bytes);
  }
}

// ---- what is posted ----

void RdmaChannel::collect(Work& work, Posted posted) noexcept {
  SIMM_CHECK(posted_ - ended_ < kWorksMax);
  work.id = posted_;
  // Somebody waits for the end of every move, and nothing may follow it. Buffers of messages are
  // many: the last few may wait for a report of what comes next.
  work.is_signaled = work.kind != WorkKind::send || ++unreported_ >= kSendsPerReport;
  if (work.is_signaled) unreported_ = 0;
  works_[posted_ % kWorksMax] = posted;
  ++posted_;
  batch_[batch_count_++] = work;
  if (batch_count_ == kBatch) flush();
}

void RdmaChannel::flush() noexcept {
  const std::size_t count = std::exchange(batch_count_, 0);
  // Of a link that has failed nothing goes anywhere, but an agent may be in the middle of a turn.
  if (count == 0 || !is_open()) return;
  if (link_->queue_pair->post({batch_.data(), count}) != count) fail(LinkLoss::io_error);
}

std::byte* RdmaChannel::part() noexcept {
  return send_at(free_.next()) + sizeof(Envelope);
}

void RdmaChannel::send(const Envelope& said) noexcept {
  Envelope envelope = said;
  envelope.received = told_ = received_;
  const std::uint32_t buffer = free_.take();
  seal_envelope(envelope, sent_seal_, send_at(buffer));
  Work work;
  work.kind = WorkKind::send;
  work.part_count = 1;
  const auto bytes = static_cast<std::uint32_t>(sizeof envelope + envelope.part_bytes);
  work.parts[0] = {send_at(buffer), bytes, link_->registration->local_key};
  ++sent_;
  counters_.sent_parts.add(1);
  collect(work, {buffer, bytes, WorkKind::send, 0});
}

void RdmaChannel::send_long(wire::MessageKind kind) noexcept {
  Envelope envelope = make_envelope(kind, 0, 0);
  envelope.body_bytes = envelope.part_bytes = wire::kPartBytesMax;
  std::memset(part(), 0, wire::kPartBytesMax);
  send(envelope);
}

bool RdmaChannel::send_bare(const Envelope& envelope) noexcept {
  if (!can_send()) return false;
  send(envelope);
  return true;
}

void RdmaChannel::send_credit() noexcept {
  if (has_room(0)) send(make_envelope(MessageKind::credit, 0, 0));
}

void RdmaChannel::move(Work& work, std::uint32_t tag, std::uint32_t bytes,
                       base::TimeNs now_ns) noexcept {
  window_.on_posted(bytes_out_, now_ns);
  bytes_out_ += bytes;
  if (work.kind == WorkKind::read) ++reads_out_;
  collect(work, {tag, bytes, work.kind, now_ns});
}

}  // namespace simm::transport
