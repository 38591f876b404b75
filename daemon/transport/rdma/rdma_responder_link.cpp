#include "daemon/transport/rdma/rdma_responder_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/transport/request_codec.h"
#include "simm/check.h"

namespace simm::transport {

using wire::Envelope;
using wire::MessageKind;
using MoveKind = RdmaIncoming::MoveKind;

RdmaResponderLink::RdmaResponderLink(RdmaResponderShared& shared)
    : shared_(shared),
      channel_(shared.counters),
      slots_(shared.config.credits),
      pull_digests_(std::make_unique<base::PayloadDigest[]>(shared.config.credits)),
      push_digests_(std::make_unique<base::PayloadDigest[]>(shared.config.credits)),
      work_(shared.config.credits) {
  SIMM_CHECK(shared.config.credits > 0 && shared.config.credits <= wire::kRdmaSlotsMax);
}

bool RdmaResponderLink::open(std::unique_ptr<RdmaLink>& link, base::TimeNs now_ns) noexcept {
  requester_ = number_ = 0;
  owes_pong_ = waits_for_keys_ = false;
  progress_.begin();
  roster_wait_.begin(now_ns);
  link->queue_pair->owner = this;
  const bool is_superseded = shared_.rosters.is_superseded(link->owner);
  channel_.open(std::move(link), now_ns, shared_.config.payload_time_ns_max);
  if (is_superseded) channel_.fail(LinkLoss::superseded);
  return true;
}

// ---- receiving ----

bool RdmaResponderLink::on_part(const Envelope& envelope,
                                std::span<const std::byte> part) noexcept {
  switch (static_cast<MessageKind>(envelope.kind)) {
    case MessageKind::ping:
      owes_pong_ = true;  // one answers all that came
      return true;
    case MessageKind::roster:
      return envelope.part_bytes == envelope.body_bytes && take_roster(part);
    case MessageKind::request:
      return on_request_part(envelope, part);
    case MessageKind::stripe:
      return take_stripe(envelope, part);
    case MessageKind::cancel:
      return take_cancel(envelope);
    default:
      return false;
  }
}

bool RdmaResponderLink::take_roster(std::span<const std::byte> part) noexcept {
  wire::RosterBody body;
  std::memcpy(&body, part.data(), sizeof body);
  LinkRoster roster;
  if (!decode_roster(body, roster)) return false;
  const bool is_first = requester_ == 0;
  if (!is_first && (roster.requester != requester_ || roster.link != number_)) return false;
  requester_ = roster.requester;
  number_ = roster.link;
  shared_.rosters.hear(roster, is_first);  // it may end this link
  return true;
}

// It comes just before its request, so its slot is free.
bool RdmaResponderLink::take_stripe(const Envelope& envelope,
                                    std::span<const std::byte> part) noexcept {
  if (envelope.slot >= shared_.config.credits) return false;
  RdmaIncoming& incoming = slots_[envelope.slot];
  if (incoming.is_served || incoming.is_replying || incoming.is_arriving) return false;
  incoming.stripe_use = envelope.use;
  return decode_stripe(part, incoming.stripe);
}

bool RdmaResponderLink::take_cancel(const Envelope& envelope) noexcept {
  if (envelope.slot >= shared_.config.credits) return false;
  RdmaIncoming& incoming = slots_[envelope.slot];
  if (!incoming.is_served || incoming.use != envelope.use) return true;  // it crossed the answer
  if (std::exchange(incoming.is_cancelled, true)) return true;
  list(incoming);
  shared_.events->on_cancel(incoming);
  return true;
}

bool RdmaResponderLink::on_request_part(const Envelope& envelope,
                                        std::span<const std::byte> part) noexcept {
  // Nothing is asked for before its requester said who it is.
  if (requester_ == 0 || envelope.slot >= shared_.config.credits) return false;
  RdmaIncoming& incoming = slots_[envelope.slot];
  // Its requester gives a slot to the next request when the reply to the last one has come.
  if (incoming.is_served || incoming.is_replying) return false;
  if (envelope.offset == 0) {
    if (incoming.is_arriving) return false;
    incoming.is_arriving = true;
    incoming.use = envelope.use;
    incoming.body_bytes = envelope.body_bytes;
    incoming.target_count = envelope.targets;
    incoming.body_received = 0;
  }
  const bool fits = incoming.is_arriving && incoming.use == envelope.use &&
                    incoming.body_bytes == envelope.body_bytes &&
                    incoming.target_count == envelope.targets &&
                    incoming.body_received == envelope.offset;
  if (!fits) return false;
  // SAFETY: open_envelope() proved offset + part_bytes <= body_bytes <= the array's size.
  std::memcpy(incoming.body.data() + envelope.offset, part.data(), part.size());
  incoming.body_received += envelope.part_bytes;
  if (incoming.body_received < incoming.body_bytes) return true;
  incoming.is_arriving = false;
  incoming.slot = envelope.slot;
  return end_request(incoming);
}

bool RdmaResponderLink::end_request(RdmaIncoming& incoming) noexcept {
  const auto all = std::span<const std::byte>(incoming.body).first(incoming.body_bytes);
  const std::size_t targets_bytes = incoming.target_count * sizeof(wire::RemoteTarget);
  DecodedRequest decoded;
  if (!decode_request(all.subspan(targets_bytes), decoded, incoming.page_list,
                      incoming.inline_at)) {
    return false;
  }
  incoming.pages = std::span<const PageRequest>(incoming.page_list).first(decoded.page_count);
  const auto inline_at = std::span<const std::uint32_t>(incoming.inline_at);
  if (!decode_targets(all.first(targets_bytes), decoded.header.opcode, incoming.pages, inline_at,
                      incoming.targets, incoming.targets_of)) {
    return false;
  }
  incoming.is_stripe = std::exchange(incoming.stripe_use, 0u) == incoming.use;
  if (incoming.is_stripe &&
      decoded.page_count > incoming.stripe.page_count - incoming.stripe.first_page) {
    return false;
  }
  incoming.responder = shared_.responder;
  incoming.header = decoded.header;
  base::TimeNs& deadline_ns = incoming.header.deadline_ns;
  if (deadline_ns == wire::kNoDeadline) {
    deadline_ns = 0;
  } else {
    const base::TimeNs now_ns = shared_.clock.fresh_ns();
    deadline_ns = now_ns + std::min(deadline_ns, ~base::TimeNs{0} - now_ns);
  }
  incoming.page_count = decoded.page_count;
  incoming.server_data = nullptr;
  incoming.requester_id = requester_id_of(channel_.link().owner, requester_);
  incoming.link = this;
  incoming.is_served = true;
  incoming.is_cancelled = false;
  incoming.moves_open = 0;
  incoming.payload_bytes = 0;
  incoming.orders.clear();
  incoming.digests.clear();
  std::fill_n(incoming.moves.begin(), decoded.page_count, RdmaIncoming::PageMove{});
  std::fill_n(incoming.answer_at.begin(), decoded.page_count, 0u);
  ++serving_;
  shared_.events->on_request(incoming);
  return true;
}

bool RdmaResponderLink::is_stalled(base::TimeNs now_ns) noexcept {
  if (moves_open_ == 0 || !channel_.is_open()) return false;
  if (waits_for_keys_) progress_.note();  // for this daemon's own
  static_cast<void>(progress_.take(now_ns));
  const base::TimeNs silence_ns = shared_.config.peer_silence_ns;
  if (progress_.are_deadlines_due(now_ns, silence_ns) &&
      PayloadProgress::is_past_deadline(slots_, shared_.config.credits, now_ns, silence_ns)) {
    return true;
  }
  return progress_.waits_ns(now_ns) >= silence_ns;
}

// ---- the end ----

std::unique_ptr<RdmaLink> RdmaResponderLink::finish_closing() noexcept {
  std::unique_ptr<RdmaLink> link = channel_.close();
  // From here on the extents are the server's.
  work_.clear();
  for (std::uint32_t slot = 0; slot < shared_.config.credits && serving_ > 0; ++slot) {
    RdmaIncoming& incoming = slots_[slot];
    if (!incoming.is_served) continue;
    incoming.is_cancelled = true;
    // The server may start others while it is told: those end likewise, a page at a time.
    while (incoming.is_served && incoming.moves_open > 0) {
      for (std::uint16_t page = 0; page < incoming.page_count && incoming.is_served; ++page) {
        if (incoming.moves[page].kind == MoveKind::none) continue;
        end_move(incoming, page, {Status::cancelled, 0});
      }
    }
    if (!incoming.is_served) continue;  // answered, when its last move had ended
    incoming.is_served = false;
    --serving_;
    shared_.events->on_aborted(incoming);
  }
  for (std::uint32_t slot = 0; slot < shared_.config.credits; ++slot) {
    RdmaIncoming& incoming = slots_[slot];
    incoming.is_listed = incoming.is_replying = incoming.is_arriving = false;
    incoming.stripe_use = 0;
  }
  if (requester_ != 0) shared_.rosters.leave(requester_);
  return link;
}

}  // namespace simm::transport
