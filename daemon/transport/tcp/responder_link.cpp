#include "daemon/transport/tcp/responder_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/transport/tcp/frame_codec.h"
#include "simm/check.h"

namespace simm::transport {

using wire::FrameKind;

ResponderLink::ResponderLink(ResponderLinkShared& shared)
    : shared_(shared),
      connection_(shared.io, shared.counters),
      slots_(shared.credits),
      pull_digests_(std::make_unique<base::PayloadDigest[]>(shared.credits)),
      push_digests_(std::make_unique<base::PayloadDigest[]>(shared.credits)),
      work_(shared.credits, kChunkBytes, shared.weights),
      serving_(shared) {
  SIMM_CHECK(shared.credits > 0 && shared.credits <= wire::kSlotsMax);
}

bool ResponderLink::open(TcpLink link, IoReadyList& ready, base::TimeNs now_ns) noexcept {
  serving_.begin(now_ns);
  connection_.socket().owner = this;
  connection_.socket().unsent_bytes_max = kUnsentAnswerBytesMax;
  const bool is_superseded = shared_.rosters.is_superseded(link.owner);
  if (!connection_.open(std::move(link), ready, now_ns)) return false;
  if (is_superseded) connection_.fail(LinkLoss::superseded);
  return true;
}

int ResponderLink::serve(base::TimeNs now_ns) noexcept {
  return connection_.serve(*this, *this, now_ns);
}

bool ResponderLink::is_stalled(base::TimeNs now_ns) noexcept {
  PayloadProgress& progress = serving_.progress();
  if (progress.take(now_ns)) has_looked_ = false;
  if (serving_.is_past_deadline(slots_, now_ns)) return true;
  const base::TimeNs silence_ns = shared_.peer_silence_ns;
  if (progress.waits_ns(now_ns) < silence_ns / 3) return false;
  // The kernel may hold more than a slow network takes in that time.
  if (!has_looked_) {
    has_looked_ = true;
    acknowledged_ = connection_.acknowledged_bytes();
  }
  if (progress.waits_ns(now_ns) < silence_ns) return false;
  if (!has_acknowledged()) return true;
  progress.note();
  static_cast<void>(progress.take(now_ns));
  return false;
}

// Whether payload that waits in the kernel got on since the last look.
bool ResponderLink::has_acknowledged() noexcept {
  const std::uint64_t before = std::exchange(acknowledged_, connection_.acknowledged_bytes());
  if (acknowledged_ <= before) return false;
  for (std::uint32_t slot = 0; slot < shared_.credits; ++slot) {
    const TcpIncoming& incoming = slots_[slot];
    if (!incoming.is_served || incoming.moves_open == 0) continue;
    if (incoming.header.opcode == ipc::Opcode::get) return true;
  }
  return false;  // what was acknowledged are pongs
}

// ---- frames ----

bool ResponderLink::on_frame(const wire::FrameHeader& header, std::byte*& target) noexcept {
  frame_ = header;
  const auto kind = static_cast<FrameKind>(header.kind);
  if (kind == FrameKind::ping) return true;
  if (kind == FrameKind::roster) {
    // SAFETY: open_header() knows that the body is as long as this.
    target = reinterpret_cast<std::byte*>(&roster_);
    return true;
  }
  if (header.slot >= shared_.credits) return false;
  switch (kind) {
    case FrameKind::request:
      return begin_request(target);
    case FrameKind::data:
      return begin_data(target);
    case FrameKind::cancel:
    case FrameKind::failed:
      return true;
    default:
      return false;
  }
}

bool ResponderLink::begin_request(std::byte*& target) noexcept {
  TcpIncoming& incoming = slots_[frame_.slot];
  // Its requester gives a slot to the next request when the reply to the last one has come.
  if (incoming.is_served || incoming.is_replying) return false;
  target = incoming.body.data();  // open_header() knows how long it may be
  return true;
}

// The parts of a page come in order, and the pages of a request one by one.
bool ResponderLink::begin_data(std::byte*& target) noexcept {
  TcpIncoming& incoming = slots_[frame_.slot];
  if (!incoming.is_served || incoming.use != frame_.use) return false;
  if (frame_.page >= incoming.page_count) return false;
  TcpIncoming::PageMove& move = incoming.moves[frame_.page];
  if (move.kind != MoveKind::pull || frame_.offset != move.moved) return false;
  if (incoming.has_open_page ? incoming.open_page != frame_.page : move.moved != 0) return false;
  const std::uint64_t left = move.length - move.moved;
  const bool is_last = (frame_.flags & wire::kFlagLast) != 0;
  if (frame_.body_bytes > left || is_last != (frame_.body_bytes == left)) return false;
  if (!incoming.has_open_page) pull_digests_[frame_.slot].begin();
  incoming.has_open_page = true;
  incoming.open_page = frame_.page;
  // SAFETY: body_bytes <= length - moved.
  target = move.memory + move.moved;
  return true;
}

bool ResponderLink::on_piece(std::byte* at, std::uint32_t bytes, const std::byte* staged) noexcept {
  if (staged != nullptr) std::memcpy(at, staged, bytes);
  if (static_cast<FrameKind>(frame_.kind) == FrameKind::data) {
    pull_digests_[frame_.slot].add(at, bytes);
    serving_.progress().note();
  }
  return true;
}

bool ResponderLink::on_frame_end() noexcept {
  const auto kind = static_cast<FrameKind>(frame_.kind);
  if (kind == FrameKind::ping) {
    ++pongs_due_;
    return true;
  }
  if (kind == FrameKind::roster) {
    return connection_.received_digest(&roster_, sizeof roster_) == frame_.digest &&
           serving_.take_roster(roster_) && connection_.is_open();
  }
  TcpIncoming& incoming = slots_[frame_.slot];
  const bool is_current = incoming.is_served && incoming.use == frame_.use;
  bool is_fine = true;
  if (kind == FrameKind::request) {
    is_fine = end_request();
  } else if (kind == FrameKind::data) {
    end_data(incoming);
  } else if (kind == FrameKind::cancel) {
    if (is_current) take_cancel(incoming);  // else it crossed the answer
  } else {
    is_fine = is_current && end_failed(incoming);
  }
  return is_fine && connection_.is_open();
}

bool ResponderLink::end_request() noexcept {
  TcpIncoming& incoming = slots_[frame_.slot];
  const auto body = std::span<const std::byte>(incoming.body).first(frame_.body_bytes);
  if (connection_.received_digest(body.data(), body.size()) != frame_.digest) return false;
  DecodedRequest decoded;
  if (!decode_request(body, decoded, incoming.page_list, incoming.inline_at)) return false;
  serving_.accept(incoming, decoded, connection_.link().owner);
  incoming.link = this;
  incoming.slot = frame_.slot;
  incoming.use = frame_.use;
  incoming.pushes.clear();
  incoming.pulls.clear();
  incoming.has_open_page = false;
  std::fill_n(incoming.moves.begin(), decoded.page_count, TcpIncoming::PageMove{});
  shared_.events->on_request(incoming);
  return true;
}

void ResponderLink::end_data(TcpIncoming& incoming) noexcept {
  TcpIncoming::PageMove& move = incoming.moves[frame_.page];
  move.moved += frame_.body_bytes;
  if ((frame_.flags & wire::kFlagLast) == 0) return;
  incoming.has_open_page = false;
  const std::uint64_t digest = pull_digests_[frame_.slot].value();
  const Status status = digest == frame_.digest ? Status::ok : Status::corrupt;
  end_move(incoming, frame_.page, {status, digest});
}

bool ResponderLink::end_failed(TcpIncoming& incoming) noexcept {
  if (frame_.page >= incoming.page_count) return false;
  const TcpIncoming::PageMove& move = incoming.moves[frame_.page];
  if (move.kind != MoveKind::pull) return false;
  if (incoming.has_open_page && incoming.open_page == frame_.page) incoming.has_open_page = false;
  end_move(incoming, frame_.page, {static_cast<Status>(frame_.status), 0});
  return true;
}

// Pushes that are not begun, or half sent, end in the next run; pulled pages are the requester's to
// end.
void ResponderLink::take_cancel(TcpIncoming& incoming) noexcept {
  incoming.is_cancelled = true;
  if (incoming.pushes.count > 0) list(incoming);
  shared_.events->on_cancel(incoming);
}

void ResponderLink::end_move(TcpIncoming& incoming, std::uint16_t page,
                             MoveResult result) noexcept {
  incoming.moves[page].kind = MoveKind::none;
  serving_.end_move(incoming, page, result);
}

// ---- the end ----

bool ResponderLink::finish_closing() noexcept {
  SIMM_CHECK(connection_.is_closing());
  if (!connection_.is_quiet()) return false;
  connection_.tx().reset();
  work_.clear();
  pongs_due_ = 0;
  serving_.abort_all(slots_, [this](TcpIncoming& incoming, std::uint16_t page) {
    end_move(incoming, page, {Status::cancelled, 0});
  });
  for (std::uint32_t slot = 0; slot < shared_.credits; ++slot) {
    slots_[slot].is_listed = slots_[slot].is_replying = false;
  }
  return true;
}

}  // namespace simm::transport
