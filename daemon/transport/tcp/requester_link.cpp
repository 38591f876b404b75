#include "daemon/transport/tcp/requester_link.h"

#include <algorithm>
#include <utility>

#include "daemon/transport/tcp/frame_codec.h"
#include "simm/check.h"

namespace simm::transport {

using wire::FrameHeader;
using wire::FrameKind;

RequesterLink::RequesterLink(RequesterLinkShared& shared)
    : shared_(shared),
      connection_(shared.io, shared.counters),
      slots_(shared.config.credits),
      digests_(std::make_unique<base::PayloadDigest[]>(shared.config.credits)),
      free_(shared.config.credits),
      work_(shared.config.credits, kChunkBytes, shared.config.weights),
      cancels_(shared.config.credits),
      abandoned_(shared.config.credits),
      puts_(shared, connection_),
      body_(std::make_unique<std::byte[]>(wire::kReplyBodyBytesMax)),
      foreign_(wire::kDataBytesMax) {
  SIMM_CHECK(shared.config.credits > 0 && shared.config.credits <= wire::kSlotsMax);
}

bool RequesterLink::open(TcpLink link, IoReadyList& ready, base::TimeNs now_ns) noexcept {
  place_ = shared_.links.open({link.peer, link.shard});
  if (place_ == OwnRoster::kNone) return false;
  pinged_ns_ = now_ns;
  connection_.socket().owner = this;
  if (connection_.open(std::move(link), ready, now_ns)) return true;
  shared_.links.close(place_);
  return false;
}

// ---- requests ----

void RequesterLink::post(RequestToken token, const Request& request) noexcept {
  SIMM_CHECK(connection_.is_open() && free_.count() > 0);
  const std::uint32_t slot = free_.take();
  TcpPosted& posted = slots_[slot];
  SIMM_CHECK(!posted.in_use);
  posted.token = token;
  posted.use = posted.use + 1 == 0 ? 1 : posted.use + 1;  // 0 names no use
  posted.in_use = true;
  posted.is_encoded = posted.is_cancelling = posted.is_culprit = posted.is_moving = false;
  posted.header = request.header;
  if (!connection_.link().takes_traces) posted.header.trace = {};
  posted.pages = request.pages;
  posted.page_count = static_cast<std::uint16_t>(request.pages.size());
  posted.pull_first = posted.pull_count = 0;
  posted.page_sent = 0;
  posted.unsent = 0;
  posted.has_open_page = false;
  std::fill_n(posted.states.begin(), request.pages.size(), TcpPosted::Page{});
  if (in_flight_++ == 0) {
    // The silence of an idle connection says nothing about its peer.
    const base::TimeNs now_ns = shared_.clock.now_ns();
    connection_.heard_ns = std::max(connection_.heard_ns, now_ns);
    pinged_ns_ = asked_ns_ = now_ns;
    is_asking_ = false;
  }
  list(slot);
}

// A scan: this is needed only for requests that went wrong.
std::uint32_t RequesterLink::find(RequestToken token) const noexcept {
  for (std::uint32_t slot = 0; slot < shared_.config.credits && in_flight_ > 0; ++slot) {
    const TcpPosted& posted = slots_[slot];
    if (posted.in_use && !posted.is_fenced && posted.token == token) return slot;
  }
  return kNoSlot;
}

bool RequesterLink::cancel(RequestToken token) noexcept {
  const std::uint32_t slot = find(token);
  if (slot == kNoSlot) return false;
  TcpPosted& posted = slots_[slot];
  if (std::exchange(posted.is_cancelling, true)) return true;
  if (!std::exchange(posted.is_cancel_listed, true)) cancels_.push(slot);
  if (posted.pull_count > 0) list(slot);  // their frames say that they do not come
  return true;
}

bool RequesterLink::abandon(RequestToken token) noexcept {
  const std::uint32_t slot = find(token);
  if (slot == kNoSlot) return false;
  if (!connection_.is_open()) return true;  // its end fences all
  TcpPosted& posted = slots_[slot];
  // What was sent of a put may still become an object: only the peer knows, or the link's end.
  if (posted.header.opcode == ipc::Opcode::put || posted.header.opcode == ipc::Opcode::remove) {
    return true;
  }
  posted.is_abandoned = true;
  if (!std::exchange(posted.is_abandon_listed, true)) abandoned_.push(slot);
  return true;
}

int RequesterLink::fence_abandoned() noexcept {
  int work = 0;
  for (std::uint32_t left = abandoned_.size(); left > 0; --left) {
    const std::uint32_t slot = abandoned_.pop();
    slots_[slot].is_abandon_listed = false;
    // Answered meanwhile, or its bytes are coming in: then the end of the frame fences it.
    if (!slots_[slot].is_abandoned || is_filling(slot)) continue;
    fence_alone(slot);
    ++work;
  }
  return work;
}

bool RequesterLink::is_filling(std::uint32_t slot) const noexcept {
  return (in_frame_ || is_copying_out_) && frame_.slot == slot;
}

// This side moves all bytes of a get. So a get is fenced without a word of the peer: what still
// comes of its payload is dropped.
void RequesterLink::fence_alone(std::uint32_t slot) noexcept {
  TcpPosted& posted = slots_[slot];
  posted.is_abandoned = false;
  const RequestToken token = posted.token;
  if (posted.is_encoded) {
    posted.is_fenced = true;
    posted.fenced_ns = shared_.clock.now_ns();
    posted.pages = {};
    ++fenced_count_;
  } else {
    release(slot);  // the peer never hears of it
  }
  shared_.events->on_fenced(token, FenceCause::reset);
}

// A peer that answers pings and no cancel would keep the credits of what was fenced for ever.
bool RequesterLink::withholds_an_answer(base::TimeNs now_ns) const noexcept {
  for (std::uint32_t slot = 0; slot < shared_.config.credits && fenced_count_ > 0; ++slot) {
    const TcpPosted& posted = slots_[slot];
    const bool is_awaited = posted.in_use && posted.is_fenced;
    if (is_awaited && now_ns >= posted.fenced_ns + shared_.config.peer_detection_ns) return true;
  }
  return false;
}

bool RequesterLink::reset(RequestToken culprit) noexcept {
  const std::uint32_t slot = find(culprit);
  if (slot == kNoSlot) return false;
  // A link that is ending already ends for another reason: this one is collateral there.
  if (connection_.is_open() || connection_.lost().cause == LinkLoss::reset) {
    slots_[slot].is_culprit = true;
  }
  connection_.fail(LinkLoss::reset);
  return true;
}

void RequesterLink::release(std::uint32_t slot) noexcept {
  TcpPosted& posted = slots_[slot];
  if (posted.is_fenced) --fenced_count_;
  posted.in_use = posted.is_abandoned = posted.is_fenced = false;
  posted.pages = {};
  free_.give(slot);
  --in_flight_;
}

// ---- sending ----

void RequesterLink::list(std::uint32_t slot) noexcept {
  TcpPosted& posted = slots_[slot];
  if (posted.is_listed) return;
  posted.is_listed = true;
  work_.push(slot, posted.header.tenant);
}

void RequesterLink::on_payload_sent(std::uint32_t tag) noexcept {
  const auto chunk = PutSender::client_chunk(tag);
  if (chunk) {
    --slots_[chunk->slot].unsent;
  } else {
    puts_.give_back(tag);
  }
  ++moved_;
}

void RequesterLink::on_payload_vanished(std::uint32_t tag) noexcept {
  const auto chunk = PutSender::client_chunk(tag);
  SIMM_CHECK(chunk.has_value());
  spoil_page(slots_[chunk->slot], chunk->page, Status::transfer_failed);
}

// False: no room now.
bool RequesterLink::send_roster() noexcept {
  TxQueue& tx = connection_.tx();
  std::byte* const frame = tx.reserve(sizeof(FrameHeader) + sizeof(wire::RosterBody));
  if (frame == nullptr) return false;
  FrameHeader header = frame_header(FrameKind::roster, 0, 0);
  header.body_bytes = sizeof(wire::RosterBody);
  encode_roster(shared_.links.say(place_), frame + sizeof header);
  header.digest = connection_.seal().digest(frame + sizeof header, header.body_bytes);
  seal_header(header, connection_.seal(), frame);
  tx.commit(sizeof header + header.body_bytes);
  return true;
}

// done: something was queued, or there is nothing left. blocked: no room on this link. waiting: a
// copy is made elsewhere; others may go on.
RequesterLink::Step RequesterLink::step(std::uint32_t slot) noexcept {
  TcpPosted& posted = slots_[slot];
  if (!posted.in_use) return Step::done;
  if (!posted.is_encoded) return encode(slot);
  if (posted.pull_count == 0) return Step::done;
  const Step did = puts_.send_page(posted, slot, digests_[slot]);
  if (did == Step::done && posted.pull_count > 0) list(slot);
  return did;
}

RequesterLink::Step RequesterLink::encode(std::uint32_t slot) noexcept {
  TcpPosted& posted = slots_[slot];
  const std::uint32_t fixed_bytes = request_body_bytes(posted.header, posted.pages);
  const bool is_put = posted.header.opcode == ipc::Opcode::put;
  const std::uint32_t room =
      fixed_bytes + (is_put ? wire::kInlineBytesMax : 0) + std::uint32_t{sizeof(FrameHeader)};
  TxQueue& tx = connection_.tx();
  std::byte* const frame = tx.reserve(room);
  if (frame == nullptr) return Step::blocked;
  std::byte* const body = frame + sizeof(FrameHeader);
  std::array<std::uint8_t, ipc::kPagesPerSubmissionMax> is_inline;
  std::fill_n(is_inline.begin(), posted.pages.size(), std::uint8_t{0});
  std::uint32_t payload_bytes = 0;
  if (is_put) {
    payload_bytes = puts_.copy_inline_pages(posted, body + fixed_bytes, is_inline);
  }
  // The time is read behind the copies: what was copied too late is refused by the server.
  encode_request(posted.header, shared_.remaining_ns(posted.header.deadline_ns), posted.pages,
                 is_inline, body);
  FrameHeader header = frame_header(FrameKind::request, slot, posted.use);
  header.body_bytes = fixed_bytes + payload_bytes;
  header.digest = connection_.seal().digest(body, header.body_bytes);
  seal_header(header, connection_.seal(), frame);
  tx.commit(sizeof header + header.body_bytes);
  posted.is_encoded = true;
  return Step::done;
}

// ---- turns ----

int RequesterLink::serve(base::TimeNs now_ns) noexcept {
  return connection_.serve(*this, *this, now_ns);
}

int RequesterLink::run(base::TimeNs now_ns) noexcept {
  if (!connection_.is_open()) return 0;
  int work = 0;
  if (is_copying_out_) work += copy_out(now_ns);
  if (!abandoned_.empty()) work += fence_abandoned();
  if (shared_.links.owes(place_) && !send_roster()) {
    connection_.start(*this);
    return work;
  }
  // Each slot that can not go on at most once: tenants take turns, and the requests of each.
  std::uint32_t blocked = 0;
  while (blocked < work_.size() && connection_.tx().queued_bytes() < kQueuedBytesMax) {
    const std::uint32_t slot = work_.pop();
    slots_[slot].is_listed = false;
    const std::uint64_t queued_bytes = connection_.tx().queued_bytes();
    const Step did = step(slot);
    if (did != Step::done) list(slot);
    work_.end_turn(connection_.tx().queued_bytes() - queued_bytes, did == Step::waiting);
    if (did == Step::blocked) break;
    blocked = did == Step::waiting ? blocked + 1 : 0;
    work += did == Step::done ? 1 : 0;
  }
  waits_for_copies_ = blocked > 0;
  while (!cancels_.empty()) {
    const std::uint32_t slot = cancels_.front();
    TcpPosted& posted = slots_[slot];
    if (posted.in_use && posted.is_cancelling) {
      if (!posted.is_encoded) break;  // behind the request itself
      if (!connection_.add_bare(frame_header(FrameKind::cancel, slot, posted.use))) break;
    }
    cancels_.pop();
    posted.is_cancel_listed = false;
    ++work;
  }
  connection_.start(*this);
  return work;
}

// Nobody wants anything of the peer now. But that this link is open is told to the manager, and the
// kernel of a stopped process keeps a connection for ever. False: nothing is to be looked at.
bool RequesterLink::asks_while_idle(base::TimeNs now_ns) noexcept {
  if (is_asking_) {
    is_asking_ = connection_.received_ns < asked_ns_;
    return is_asking_;
  }
  if (now_ns < idle_ping_due_ns()) return false;
  connection_.heard_ns = std::max(connection_.heard_ns, now_ns);
  asked_ns_ = now_ns;
  is_asking_ = true;
  return true;
}

RequesterLink::Life RequesterLink::check_life(base::TimeNs now_ns) noexcept {
  if (!connection_.is_open()) return Life::well;
  if (in_flight_ == 0 && !asks_while_idle(now_ns)) return Life::well;
  const base::TimeNs ping_ns = shared_.config.peer_detection_ns / 3;
  // It is us who do not listen.
  if (is_copying_out_) connection_.heard_ns = std::max(connection_.heard_ns, now_ns);
  const bool is_quiet = now_ns >= connection_.heard_ns + ping_ns;
  if (now_ns >= pinged_ns_ + ping_ns) {
    pinged_ns_ = now_ns;
    if (is_quiet && gets_payload_through(now_ns)) connection_.heard_ns = now_ns;
    // No room: then much is on its way already.
    static_cast<void>(connection_.add_bare(frame_header(FrameKind::ping, 0, 0)));
    connection_.start(*this);
    if (withholds_an_answer(now_ns)) {
      connection_.fail(LinkLoss::silent);
      return Life::well;
    }
  }
  if (now_ns >= connection_.heard_ns + silence_ns()) return Life::silent;
  return is_quiet ? Life::quiet : Life::well;
}

// On a slow path pings and answers wait behind payload. The peer's kernel acknowledges that payload
// as it arrives: a peer without pongs is not dead for it. Two looks of one silence are compared. A
// process that was stopped is still found: its kernel takes what its buffer holds, and no more.
bool RequesterLink::gets_payload_through(base::TimeNs now_ns) noexcept {
  const base::TimeNs since_ns = std::max(connection_.received_ns, asked_ns_);
  const std::uint64_t before = acknowledged_;
  acknowledged_ = connection_.acknowledged_bytes();
  if (std::exchange(looked_ns_, since_ns) != since_ns) return false;
  return acknowledged_ >= before + kAcknowledgedLifeBytes &&
         now_ns < since_ns + kAcknowledgedLifeTimes * shared_.config.peer_detection_ns;
}

void RequesterLink::probe(base::TimeNs now_ns) noexcept {
  if (in_flight_ > 0 || !connection_.is_open()) return;
  if (now_ns < pinged_ns_ + shared_.config.peer_detection_ns / 3) return;
  pinged_ns_ = now_ns;
  static_cast<void>(connection_.add_bare(frame_header(FrameKind::ping, 0, 0)));
  connection_.start(*this);
}

base::TimeNs RequesterLink::next_deadline_ns() const noexcept {
  constexpr base::TimeNs kCopyPollNs = 50'000;  // nobody wakes us when a foreign copy is done
  if (connection_.is_closing()) return shared_.clock.now_ns() + kCopyPollNs;
  if (connection_.is_free()) return base::kNoDeadline;
  base::TimeNs next_ns = idle_ping_due_ns();
  if (in_flight_ > 0 || is_asking_) {
    next_ns = pinged_ns_ + shared_.config.peer_detection_ns / 3;
    const base::TimeNs silent_ns = connection_.heard_ns + silence_ns();
    // A link that outlives its silence is looked at with each ping.
    if (silent_ns > pinged_ns_) next_ns = std::min(next_ns, silent_ns);
  }
  return is_copying_out_ || waits_for_copies_
             ? std::min(next_ns, shared_.clock.now_ns() + kCopyPollNs)
             : next_ns;
}

// ---- the end ----

// True: no Mover touches a slice or a block for this link any more.
bool RequesterLink::stop_moves() noexcept {
  bool all = true;
  for (std::uint32_t slot = 0; slot < shared_.config.credits && in_flight_ > 0; ++slot) {
    TcpPosted& posted = slots_[slot];
    if (posted.in_use && !puts_.stop(posted)) all = false;
  }
  if (is_copying_out_ && shared_.mover.stop(copy_out_)) is_copying_out_ = false;
  return all && !is_copying_out_;
}

bool RequesterLink::finish_closing() noexcept {
  SIMM_CHECK(connection_.is_closing());
  if (!stop_moves() || !connection_.is_quiet()) return false;
  // Nothing is under way: from here on the slices are the clients'.
  connection_.tx().reset();
  puts_.reset();
  work_.clear();
  cancels_.clear();
  abandoned_.clear();
  is_stopping_ = has_client_target_ = waits_for_copies_ = in_frame_ = false;
  for (std::uint32_t slot = 0; slot < shared_.config.credits; ++slot) {
    TcpPosted& posted = slots_[slot];
    posted.is_listed = posted.is_cancel_listed = posted.is_abandon_listed = false;
    if (!posted.in_use) continue;
    const FenceCause cause = posted.is_culprit ? FenceCause::reset : FenceCause::collateral;
    const RequestToken token = posted.token;
    const bool was_fenced = posted.is_fenced;
    release(slot);
    if (!was_fenced) shared_.events->on_fenced(token, cause);
  }
  shared_.links.close(std::exchange(place_, OwnRoster::kNone));
  return true;
}

}  // namespace simm::transport
