#include "daemon/transport/rdma/rdma_requester_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/base/agent.h"
#include "daemon/transport/rdma/message_codec.h"
#include "daemon/transport/request_codec.h"
#include "simm/check.h"

namespace simm::transport {

using wire::Envelope;
using wire::MessageKind;

std::uint64_t payload_bytes_of(std::span<const PageRequest> pages) noexcept {
  std::uint64_t bytes = 0;
  for (const PageRequest& page : pages) bytes += page.slice.length;
  return bytes;
}

namespace {

bool moves_payload(ipc::Opcode opcode) noexcept {
  return opcode == ipc::Opcode::put || opcode == ipc::Opcode::get;
}

}  // namespace

RdmaRequesterLink::RdmaRequesterLink(RdmaRequesterShared& shared)
    : shared_(shared),
      channel_(shared.counters),
      slots_(shared.config.credits),
      free_(shared.config.credits),
      work_(shared.config.credits, kTurnQuantumBytes, shared.config.weights),
      cancels_(shared.config.credits) {
  SIMM_CHECK(shared.config.credits > 0 && shared.config.credits <= wire::kRdmaSlotsMax);
}

bool RdmaRequesterLink::open(std::unique_ptr<RdmaLink>& link, base::TimeNs now_ns) noexcept {
  place_ = shared_.links.open({link->peer, link->shard});
  if (place_ == OwnRoster::kNone) return false;
  link->queue_pair->owner = this;
  channel_.open(std::move(link), now_ns, 0);
  begin_watch(now_ns);
  is_asking_ = owes_ping_ = !channel_.was_heard();
  return true;
}

bool RdmaRequesterLink::leads_to(Route route) const noexcept {
  return channel_.is_open() && channel_.was_heard() &&
         Route{channel_.link().peer, channel_.link().shard} == route;
}

// ---- requests ----

bool RdmaRequesterLink::knows(const PageRequest& page) const noexcept {
  std::array<wire::RemoteTarget, wire::kTargetsOfPageMax> found;
  return page.slice.length == 0 || shared_.keys.remote(channel_.link().rail, page.slice, found) > 0;
}

bool RdmaRequesterLink::post(RequestToken token, const Request& request,
                             const wire::StripeBody* stripe) noexcept {
  SIMM_CHECK(channel_.is_open() && free_.count() > 0);
  const std::uint32_t slot = free_.next();
  RdmaPosted& posted = slots_[slot];
  SIMM_CHECK(!posted.in_use);
  if (!encode(posted, request)) return false;
  (void)free_.take();
  posted.token = token;
  posted.use = posted.use + 1 == 0 ? 1 : posted.use + 1;  // 0 names no use
  posted.in_use = true;
  posted.is_cancelling = posted.is_culprit = false;
  posted.owes_stripe = stripe != nullptr;
  if (stripe != nullptr) posted.stripe = *stripe;
  posted.deadline_ns = request.header.deadline_ns;
  posted.tenant = request.header.tenant;
  posted.opcode = request.header.opcode;
  posted.pages = request.pages;
  posted.body_sent = posted.reply_bytes = posted.reply_received = 0;
  posted.payload_bytes = payload_bytes_of(posted.pages);
  bytes_out_ += posted.payload_bytes;
  // The silence of an idle link says nothing about its peer.
  if (!is_watched()) begin_watch(shared_.clock.now_ns());
  ++in_flight_;
  work_.push(slot, posted.tenant);
  return true;
}

// targets, then the body of request_wire.h, then inline payloads.
bool RdmaRequesterLink::encode(RdmaPosted& posted, const Request& request) noexcept {
  std::fill_n(shared_.is_inline.begin(), request.pages.size(), std::uint8_t{0});
  // Inline pages have no targets: how many there are tells where the payloads go. So the payloads
  // are copied to the end of the body first.
  std::byte* const payloads = posted.body.data() + posted.body.size() - kInlineMessageBytes;
  const std::uint32_t payload_bytes = copy_inline_pages(posted, request, payloads);
  if (!name_targets(posted, request)) return false;
  const std::size_t targets_bytes = shared_.target_count * sizeof(wire::RemoteTarget);
  RequestHeader header = request.header;
  if (!channel_.link().takes_traces) header.trace = {};
  const std::uint32_t fixed_bytes = request_body_bytes(header, request.pages);
  std::byte* const fixed = posted.body.data() + targets_bytes;
  if (targets_bytes > 0) std::memcpy(posted.body.data(), shared_.targets.data(), targets_bytes);
  // SAFETY: body has room for all targets, all keys and all inline payloads there can be; the
  // payloads lie at its very end, so that they are moved down, if at all.
  std::memmove(fixed + fixed_bytes, payloads, payload_bytes);
  encode_request(header, wire::kNoDeadline, request.pages, shared_.is_inline, fixed);
  posted.targets = static_cast<std::uint16_t>(shared_.target_count);
  posted.body_bytes = static_cast<std::uint32_t>(targets_bytes) + fixed_bytes + payload_bytes;
  return true;
}

// Short pages of a put, from mapped memory. One whose memory failed is neither inline nor has it a
// target: the server is told that way. Its owner is told with the reply.
std::uint32_t RdmaRequesterLink::copy_inline_pages(RdmaPosted& posted, const Request& request,
                                                   std::byte* to) noexcept {
  posted.has_unread = false;
  if (request.header.opcode != ipc::Opcode::put) return 0;
  std::uint32_t bytes = 0;
  for (std::size_t i = 0; i < request.pages.size(); ++i) {
    const memory::Slice& slice = request.pages[i].slice;
    if (slice.length == 0 || slice.length > shared_.config.inline_page_bytes) continue;
    if (slice.length > kInlineMessageBytes - bytes) continue;
    if (!slice.is_reached_by(memory::Reach::mapped)) continue;
    Move move;
    move.slice = slice;
    move.memory = to + bytes;
    move.length = slice.length;
    move.stream = &shared_.scratch_digest;
    if (shared_.mover.step(move, slice.length) != MoveProgress::done) continue;
    if (move.status == Status::transfer_failed) {
      if (!std::exchange(posted.has_unread, true)) {
        std::fill_n(posted.is_unread.begin(), request.pages.size(), false);
      }
      posted.is_unread[i] = true;
    }
    if (move.status != Status::ok) continue;
    shared_.is_inline[i] = 1;
    bytes += static_cast<std::uint32_t>(slice.length);
  }
  shared_.counters.inline_bytes.add(bytes);
  return bytes;
}

bool RdmaRequesterLink::name_targets(const RdmaPosted& posted, const Request& request) noexcept {
  shared_.target_count = 0;
  if (!moves_payload(request.header.opcode)) return true;
  for (std::size_t i = 0; i < request.pages.size(); ++i) {
    const memory::Slice& slice = request.pages[i].slice;
    if (slice.length == 0 || shared_.is_inline[i] != 0) continue;
    if (posted.has_unread && posted.is_unread[i]) continue;
    std::array<wire::RemoteTarget, wire::kTargetsOfPageMax> found;
    const std::size_t count = shared_.keys.remote(channel_.link().rail, slice, found);
    if (count == 0) return false;
    for (std::size_t j = 0; j < count; ++j) {
      found[j].page = static_cast<std::uint32_t>(i);
      shared_.targets[shared_.target_count++] = found[j];
    }
  }
  return true;
}

// The time that is left is read when the request leaves: what waited for too long is refused by the
// server.
void RdmaRequesterLink::set_remaining(RdmaPosted& posted) noexcept {
  std::uint64_t remaining_ns = wire::kNoDeadline;
  if (posted.deadline_ns != 0) {
    const base::TimeNs now_ns = shared_.clock.fresh_ns();
    remaining_ns = posted.deadline_ns > now_ns ? posted.deadline_ns - now_ns : 0;
  }
  // SAFETY: the body has its fixed part behind the targets.
  std::memcpy(posted.body.data() + posted.targets * sizeof(wire::RemoteTarget) +
                  offsetof(wire::RequestBody, remaining_ns),
              &remaining_ns, sizeof remaining_ns);
}

// A scan: this is needed only for requests that went wrong.
std::uint32_t RdmaRequesterLink::find(RequestToken token) noexcept {
  for (std::uint32_t slot = 0; slot < shared_.config.credits && in_flight_ > 0; ++slot) {
    const RdmaPosted& posted = slots_[slot];
    if (posted.in_use && posted.token == token) return slot;
  }
  return kNoSlot;
}

bool RdmaRequesterLink::cancel(RequestToken token) noexcept {
  const std::uint32_t slot = find(token);
  if (slot == kNoSlot) return false;
  RdmaPosted& posted = slots_[slot];
  if (std::exchange(posted.is_cancelling, true)) return true;
  if (!std::exchange(posted.is_cancel_listed, true)) cancels_.push(slot);
  return true;
}

bool RdmaRequesterLink::reset(RequestToken culprit) noexcept {
  const std::uint32_t slot = find(culprit);
  if (slot == kNoSlot) return false;
  // A link that is ending already ends for another reason: this one is collateral there.
  if (channel_.is_open() || channel_.link().loss == LinkLoss::reset) {
    slots_[slot].is_culprit = true;
  }
  channel_.fail(LinkLoss::reset);
  return true;
}

void RdmaRequesterLink::release(std::uint32_t slot) noexcept {
  RdmaPosted& posted = slots_[slot];
  bytes_out_ -= posted.payload_bytes;
  posted.in_use = false;
  posted.pages = {};
  free_.give(slot);
  --in_flight_;
}

// ---- sending ----

int RdmaRequesterLink::run() noexcept {
  if (!channel_.is_open()) return 0;
  int work = 0;
  if (shared_.links.owes(place_) && !send_roster()) {
    channel_.flush();
    return work;
  }
  if (owes_ping_ && channel_.can_send()) {
    owes_ping_ = false;
    prove_path();
    ++work;
  }
  while (!work_.empty() && channel_.can_send()) {
    const std::uint32_t slot = work_.pop();
    RdmaPosted& posted = slots_[slot];
    const std::uint32_t sent_bytes = posted.body_sent;
    if (send_part(slot)) work_.push(slot, posted.tenant);
    work_.end_turn(posted.body_sent - sent_bytes);
    ++work;
  }
  // Behind the requests themselves, which have all been sent by now.
  while (work_.empty() && !cancels_.empty() && channel_.can_send()) {
    const std::uint32_t slot = cancels_.pop();
    RdmaPosted& posted = slots_[slot];
    posted.is_cancel_listed = false;
    // It may have been answered meanwhile, and be another request's.
    if (!posted.in_use || !posted.is_cancelling) continue;
    channel_.send(make_envelope(MessageKind::cancel, slot, posted.use));
    ++work;
  }
  if (channel_.owes_credit()) channel_.send_credit();
  channel_.flush();
  return work;
}

// False: no room now.
bool RdmaRequesterLink::send_roster() noexcept {
  if (!channel_.can_send()) return false;
  wire::RosterBody body;
  encode_roster(shared_.links.say(place_), reinterpret_cast<std::byte*>(&body));
  std::memcpy(channel_.part(), &body, sizeof body);
  Envelope envelope = make_envelope(MessageKind::roster, 0, 0);
  envelope.body_bytes = envelope.part_bytes = sizeof body;
  channel_.send(envelope);
  return true;
}

void RdmaRequesterLink::send_stripe(RdmaPosted& posted, std::uint32_t slot) noexcept {
  posted.owes_stripe = false;
  Envelope envelope = make_envelope(MessageKind::stripe, slot, posted.use);
  envelope.body_bytes = envelope.part_bytes = sizeof posted.stripe;
  std::memcpy(channel_.part(), &posted.stripe, sizeof posted.stripe);
  channel_.send(envelope);
}

// The next part of a request; true: there are more.
bool RdmaRequesterLink::send_part(std::uint32_t slot) noexcept {
  RdmaPosted& posted = slots_[slot];
  if (posted.owes_stripe) {
    send_stripe(posted, slot);
    return true;
  }
  if (posted.body_sent == 0) set_remaining(posted);
  Envelope envelope = make_envelope(MessageKind::request, slot, posted.use);
  envelope.targets = posted.targets;
  envelope.body_bytes = posted.body_bytes;
  envelope.offset = posted.body_sent;
  envelope.part_bytes = std::min(wire::kPartBytesMax, posted.body_bytes - posted.body_sent);
  std::memcpy(channel_.part(), posted.body.data() + posted.body_sent, envelope.part_bytes);
  channel_.send(envelope);
  posted.body_sent += envelope.part_bytes;
  return posted.body_sent < posted.body_bytes;
}

// ---- receiving ----

bool RdmaRequesterLink::on_part(const Envelope& envelope,
                                std::span<const std::byte> part) noexcept {
  const auto kind = static_cast<MessageKind>(envelope.kind);
  is_asking_ = false;
  if (kind == MessageKind::pong) return true;
  // Only requests that are out have answers.
  if (kind != MessageKind::reply || envelope.slot >= shared_.config.credits) return false;
  RdmaPosted& posted = slots_[envelope.slot];
  if (!posted.in_use || posted.use != envelope.use) return false;
  if (posted.body_sent < posted.body_bytes) return false;
  if (envelope.offset == 0) posted.reply_bytes = envelope.body_bytes;
  if (envelope.offset != posted.reply_received || envelope.body_bytes != posted.reply_bytes) {
    return false;
  }
  // SAFETY: open_envelope() proved offset + part_bytes <= body_bytes <= the array's size.
  std::memcpy(posted.reply.data() + envelope.offset, part.data(), part.size());
  posted.reply_received += envelope.part_bytes;
  return posted.reply_received < posted.reply_bytes || end_reply(envelope.slot);
}

bool RdmaRequesterLink::end_reply(std::uint32_t slot) noexcept {
  RdmaPosted& posted = slots_[slot];
  const auto replies = std::span(posted.replies).first(posted.pages.size());
  if (!decode_answers(std::span(posted.reply).first(posted.reply_bytes), replies,
                      posted.inline_at)) {
    return false;
  }
  const bool is_get = posted.opcode == ipc::Opcode::get;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (posted.inline_at[i] != 0 && !is_get) return false;
    const bool is_ok = replies[i].status == Status::ok;
    if (is_get && is_ok && replies[i].bytes > posted.pages[i].slice.length) return false;
  }
  if (is_get) copy_inline_replies(posted);
  if (posted.has_unread) tell_faults(posted);
  posted.in_use = false;
  shared_.events->on_reply(posted.token, replies);
  release(slot);  // only now: the replies were read from it
  return true;
}

void RdmaRequesterLink::tell_faults(const RdmaPosted& posted) noexcept {
  for (std::size_t i = 0; i < posted.pages.size() && shared_.faults != nullptr; ++i) {
    if (posted.is_unread[i]) shared_.faults->on_region_fault(*posted.pages[i].slice.region);
  }
}

void RdmaRequesterLink::copy_inline_replies(RdmaPosted& posted) noexcept {
  for (std::size_t i = 0; i < posted.pages.size(); ++i) {
    PageReply& reply = posted.replies[i];
    if (posted.inline_at[i] == 0) continue;
    // SAFETY: decode_answers() proved that the payload lies in the reply.
    const std::byte* const from = posted.reply.data() + posted.inline_at[i];
    const Status status = copy_out(posted.pages[i], from, reply.bytes);
    shared_.counters.inline_bytes.add(reply.bytes);
    if (status == Status::ok) continue;
    if (status == Status::transfer_failed && shared_.faults != nullptr) {
      shared_.faults->on_region_fault(*posted.pages[i].slice.region);
    }
    reply = {status, 0};
  }
}

Status RdmaRequesterLink::copy_out(const PageRequest& page, const std::byte* from,
                                   std::uint64_t bytes) noexcept {
  Move move;
  move.slice = {page.slice.region, page.slice.offset, bytes};
  // SAFETY: a move out only reads its private memory.
  move.memory = const_cast<std::byte*>(from);
  move.length = bytes;
  move.stream = &shared_.scratch_digest;
  move.direction = MoveDirection::out;
  SIMM_CHECK(shared_.mover.step(move, bytes) == MoveProgress::done);
  return move.status;
}

// ---- life and end ----

bool RdmaRequesterLink::check_life(base::TimeNs now_ns) noexcept {
  if (!channel_.is_open()) return false;
  if (!is_watched()) {
    // The last watch began with the last request, or with the last of these.
    if (now_ns < pinged_ns_ + shared_.config.idle_ping_ns) return false;
    begin_watch(now_ns);
    is_asking_ = true;
    // The first one is still owed, or nothing fits: then this link has much to say.
    if (!owes_ping_ && !shared_.links.owes(place_) && channel_.can_send()) prove_path();
    channel_.flush();
    return false;
  }
  if (now_ns >= pinged_ns_ + shared_.config.peer_detection_ns / 3) ping(now_ns);
  return now_ns >= channel_.heard_ns + shared_.config.peer_detection_ns;
}

// As long as any message, and the answer as well: so a path that swallows long packets is found out
// before a page waits on it.
void RdmaRequesterLink::prove_path() noexcept {
  if (channel_.link().takes_long_pings) return channel_.send_long(MessageKind::ping);
  channel_.send(make_envelope(MessageKind::ping, 0, 0));
}

void RdmaRequesterLink::ping(base::TimeNs now_ns) noexcept {
  pinged_ns_ = now_ns;
  // Who has said nothing yet says first who it is.
  if (owes_ping_ || shared_.links.owes(place_)) return;
  // No room: then the other end has much to answer, and that is a life sign, too.
  static_cast<void>(channel_.send_bare(make_envelope(MessageKind::ping, 0, 0)));
  channel_.flush();
}

base::TimeNs RdmaRequesterLink::next_deadline_ns() const noexcept {
  if (!channel_.is_open()) return base::kNoDeadline;
  if (!is_watched()) return pinged_ns_ + shared_.config.idle_ping_ns;
  return std::min(pinged_ns_ + shared_.config.peer_detection_ns / 3,
                  channel_.heard_ns + shared_.config.peer_detection_ns);
}

std::unique_ptr<RdmaLink> RdmaRequesterLink::finish_closing() noexcept {
  std::unique_ptr<RdmaLink> link = channel_.close();
  // From here on the slices are the clients'.
  work_.clear();
  cancels_.clear();
  for (std::uint32_t slot = 0; slot < shared_.config.credits; ++slot) {
    RdmaPosted& posted = slots_[slot];
    posted.is_cancel_listed = false;
    if (!posted.in_use) continue;
    const FenceCause cause = posted.is_culprit ? FenceCause::reset : FenceCause::collateral;
    const RequestToken token = posted.token;
    release(slot);
    shared_.events->on_fenced(token, cause);
  }
  shared_.links.close(std::exchange(place_, OwnRoster::kNone));
  return link;
}

}  // namespace simm::transport
