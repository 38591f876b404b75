#include "daemon/transport/rdma/rdma_responder_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/transport/request_codec.h"
#include "simm/check.h"

namespace simm::transport {

using wire::Envelope;
using wire::MessageKind;

RdmaResponderLink::RdmaResponderLink(RdmaResponderShared& shared)
    : shared_(shared),
      channel_(shared.counters),
      slots_(shared.credits),
      pull_digests_(std::make_unique<base::PayloadDigest[]>(shared.credits)),
      push_digests_(std::make_unique<base::PayloadDigest[]>(shared.credits)),
      work_(shared.credits, kTurnQuantumBytes, shared.weights),
      serving_(shared) {
  SIMM_CHECK(shared.credits > 0 && shared.credits <= wire::kRdmaSlotsMax);
}

bool RdmaResponderLink::open(std::unique_ptr<RdmaLink>& link, base::TimeNs now_ns) noexcept {
  owes_pong_ = owes_long_pong_ = waits_for_keys_ = false;
  serving_.begin(now_ns);
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
      owes_long_pong_ |= envelope.body_bytes != 0;
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
  return serving_.take_roster(body);
}

// It comes just before its request, so its slot is free.
bool RdmaResponderLink::take_stripe(const Envelope& envelope,
                                    std::span<const std::byte> part) noexcept {
  if (envelope.slot >= shared_.credits) return false;
  RdmaIncoming& incoming = slots_[envelope.slot];
  if (incoming.is_served || incoming.is_replying || incoming.is_arriving) return false;
  incoming.stripe_use = envelope.use;
  return decode_stripe(part, incoming.stripe);
}

bool RdmaResponderLink::take_cancel(const Envelope& envelope) noexcept {
  if (envelope.slot >= shared_.credits) return false;
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
  if (serving_.requester() == 0 || envelope.slot >= shared_.credits) return false;
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
  serving_.accept(incoming, decoded, channel_.link().owner);
  incoming.link = this;
  incoming.payload_bytes = 0;
  incoming.orders.clear();
  incoming.digests.clear();
  std::fill_n(incoming.moves.begin(), decoded.page_count, RdmaIncoming::PageMove{});
  std::fill_n(incoming.answer_at.begin(), decoded.page_count, 0u);
  shared_.events->on_request(incoming);
  return true;
}

bool RdmaResponderLink::is_stalled(base::TimeNs now_ns) noexcept {
  PayloadProgress& progress = serving_.progress();
  if (waits_for_keys_) progress.note();  // for this daemon's own
  static_cast<void>(progress.take(now_ns));
  return serving_.is_past_deadline(slots_, now_ns) ||
         progress.waits_ns(now_ns) >= shared_.peer_silence_ns;
}

// ---- the end ----

std::unique_ptr<RdmaLink> RdmaResponderLink::finish_closing() noexcept {
  std::unique_ptr<RdmaLink> link = channel_.close();
  // From here on the extents are the server's.
  work_.clear();
  serving_.abort_all(slots_, [this](RdmaIncoming& incoming, std::uint16_t page) {
    end_move(incoming, page, {Status::cancelled, 0});
  });
  for (std::uint32_t slot = 0; slot < shared_.credits; ++slot) {
    RdmaIncoming& incoming = slots_[slot];
    incoming.is_listed = incoming.is_replying = incoming.is_arriving = false;
    incoming.stripe_use = 0;
  }
  return link;
}

}  // namespace simm::transport
