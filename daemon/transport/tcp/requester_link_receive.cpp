// What a requester receives on a link: pulls, the payloads of gets, and replies.
#include <algorithm>
#include <cstring>

#include "daemon/memory/copy_untrusted.h"
#include "daemon/transport/digest_sink.h"
#include "daemon/transport/tcp/frame_codec.h"
#include "daemon/transport/tcp/requester_link.h"
#include "simm/check.h"

namespace simm::transport {

using wire::FrameKind;

namespace {

std::uint64_t bytes_left(const TcpPosted& posted, std::uint16_t page) noexcept {
  return posted.pages[page].slice.length - posted.states[page].received;
}

}  // namespace

bool RequesterLink::on_frame(const wire::FrameHeader& header, std::byte*& target) noexcept {
  frame_ = header;
  has_client_target_ = false;
  const auto kind = static_cast<FrameKind>(header.kind);
  in_frame_ = kind != FrameKind::pong;
  if (kind == FrameKind::pong) return true;
  // Only requests that are out have frames: an answer ends its request, on both sides.
  if (header.slot >= shared_.config.credits) return false;
  TcpPosted& posted = slots_[header.slot];
  if (!posted.in_use || !posted.is_encoded || posted.use != header.use) return false;
  if (kind == FrameKind::data) return begin_data(posted, target);
  if (kind != FrameKind::pull && kind != FrameKind::reply) return false;
  target = body_.get();  // open_header() knows how long these may be
  return true;
}

// The parts of a page come in order, and the pages of a request one by one.
bool RequesterLink::begin_data(TcpPosted& posted, std::byte*& target) noexcept {
  if (posted.header.opcode != ipc::Opcode::get || frame_.page >= posted.page_count) return false;
  TcpPosted::Page& state = posted.states[frame_.page];
  if (posted.has_open_page ? posted.open_page != frame_.page : frame_.offset != 0) return false;
  if (state.is_complete || frame_.offset != state.received) return false;
  const bool is_dropped = posted.is_fenced;
  if (!is_dropped && frame_.body_bytes > bytes_left(posted, frame_.page)) return false;
  if (!posted.has_open_page) digests_[frame_.slot].begin();
  posted.has_open_page = true;
  posted.open_page = frame_.page;
  if (is_dropped || state.local != Status::ok || frame_.body_bytes == 0) return true;
  const PageRequest& page = posted.pages[frame_.page];
  if (!page.slice.is_reached_by(memory::Reach::mapped)) {
    target = &foreign_[0];
    return true;
  }
  Status status = Status::ok;
  target = memory::kernel_place(page.slice, state.received, frame_.body_bytes, status);
  if (target == nullptr) {
    spoil_page(posted, frame_.page, status);
  } else {
    has_client_target_ = true;
  }
  return true;
}

void RequesterLink::spoil_page(TcpPosted& posted, std::uint16_t page, Status status) noexcept {
  TcpPosted::Page& state = posted.states[page];
  if (state.local != Status::ok) return;
  state.local = status;
  if (status == Status::transfer_failed && shared_.faults != nullptr) {
    shared_.faults->on_region_fault(*posted.pages[page].slice.region);
  }
}

bool RequesterLink::on_piece(std::byte* at, std::uint32_t bytes, const std::byte* staged) noexcept {
  base::PayloadDigest* const digest = &digests_[frame_.slot];
  if (!has_client_target_) {
    if (staged != nullptr) std::memcpy(at, staged, bytes);
    if (static_cast<FrameKind>(frame_.kind) == FrameKind::data) digest->add(at, bytes);
    return true;
  }
  TcpPosted& posted = slots_[frame_.slot];
  const memory::Slice& slice = posted.pages[frame_.page].slice;
  // Where in the slice: `at` began as kernel_place() of the slice's byte `received`.
  const auto place = static_cast<std::uint64_t>(at - slice.region->base) - slice.offset;
  Status status = Status::ok;
  if (staged != nullptr) {
    digest->add(staged, bytes);
    status = move_staged(slice, place, staged, bytes);
  } else {
    status = memory::show_untrusted(slice, place, bytes, digest_sink(digest));
  }
  if (status != Status::ok) spoil_page(posted, frame_.page, status);
  return status == Status::ok;
}

// Shorter than memory::kStreamBytesMin: done in one step.
Status RequesterLink::move_staged(const memory::Slice& slice, std::uint64_t place,
                                  const std::byte* staged, std::uint32_t bytes) noexcept {
  Move move;
  move.slice = {slice.region, slice.offset + place, bytes};
  // SAFETY: a move out only reads its private memory.
  move.memory = const_cast<std::byte*>(staged);
  move.length = bytes;
  move.stream = &scratch_digest_;
  move.direction = MoveDirection::out;
  SIMM_CHECK(shared_.mover.step(move, bytes) == MoveProgress::done);
  return move.status;
}

bool RequesterLink::on_fault() noexcept {
  if (!has_client_target_) return false;
  spoil_page(slots_[frame_.slot], frame_.page, Status::transfer_failed);
  return true;
}

bool RequesterLink::on_frame_end() noexcept {
  in_frame_ = false;
  const auto kind = static_cast<FrameKind>(frame_.kind);
  bool is_fine = true;
  if (kind != FrameKind::pong) {
    ++moved_;
    TcpPosted& posted = slots_[frame_.slot];
    if (kind == FrameKind::data) {
      is_fine = end_data(posted);
      if (is_fine && posted.is_abandoned && !is_copying_out_) fence_alone(frame_.slot);
    } else if (connection_.received_digest(body_.get(), frame_.body_bytes) != frame_.digest) {
      is_fine = false;
    } else {
      is_fine = kind == FrameKind::pull ? end_pull(posted) : end_reply(posted);
    }
  }
  return is_fine && connection_.is_open();  // an upcall may have ended it
}

bool RequesterLink::end_data(TcpPosted& posted) noexcept {
  TcpPosted::Page& state = posted.states[frame_.page];
  if (!posted.is_fenced && state.local == Status::ok && frame_.body_bytes > 0) {
    const memory::Slice& slice = posted.pages[frame_.page].slice;
    if (!slice.is_reached_by(memory::Reach::mapped)) begin_copy_out(slice, state.received);
  }
  state.received += frame_.body_bytes;
  if ((frame_.flags & wire::kFlagLast) == 0) return true;
  state.is_complete = true;
  posted.has_open_page = false;
  if (!posted.is_fenced && state.local == Status::ok &&
      digests_[frame_.slot].value() != frame_.digest) {
    state.local = Status::corrupt;
  }
  return true;
}

bool RequesterLink::end_pull(TcpPosted& posted) noexcept {
  if (posted.header.opcode != ipc::Opcode::put) return false;
  std::array<std::uint16_t, ipc::kPagesPerSubmissionMax> pages;
  const std::size_t count = frame_.body_bytes / sizeof(std::uint16_t);
  const auto wanted = std::span(pages).first(count);
  const auto page_count = posted.page_count;
  if (!decode_pull({body_.get(), frame_.body_bytes}, page_count, wanted)) return false;
  for (const std::uint16_t page : wanted) {
    if (posted.states[page].is_pulled) return false;
    posted.states[page].is_pulled = true;
    posted.pulled[(posted.pull_first + posted.pull_count) % posted.pulled.size()] = page;
    ++posted.pull_count;
  }
  list(frame_.slot);
  return true;
}

// What this side knows about the pages comes first. False: the reply contradicts what came before
// it.
bool RequesterLink::check_replies(TcpPosted& posted) noexcept {
  // The kernel still reads memory of the client: no honest peer answers before it has those bytes.
  if (posted.pull_count > 0 || posted.unsent > 0) return false;
  const bool is_get = posted.header.opcode == ipc::Opcode::get;
  for (std::size_t i = 0; i < posted.page_count; ++i) {
    PageReply& reply = posted.replies[i];
    const TcpPosted::Page& state = posted.states[i];
    if (!is_get) {
      // Zeros went out for memory that had vanished; or what arrived is not what was digested.
      if (state.local != Status::ok) reply = {state.local, 0};
      if (reply.status == Status::corrupt) reply = {Status::transfer_failed, 0};
      continue;
    }
    if (reply.status != Status::ok) continue;
    if (!state.is_complete || state.received != reply.bytes) return false;
    if (state.local != Status::ok) reply = {state.local, 0};
  }
  return true;
}

bool RequesterLink::end_reply(TcpPosted& posted) noexcept {
  const auto replies = std::span(posted.replies).first(posted.page_count);
  if (!decode_reply({body_.get(), frame_.body_bytes}, replies)) return false;
  const std::uint32_t slot = frame_.slot;
  if (posted.is_fenced) {  // its last word
    release(slot);
    return true;
  }
  if (!check_replies(posted)) return false;
  posted.in_use = false;
  shared_.events->on_reply(posted.token, replies);
  release(slot);  // only now: the replies were read from it
  return true;
}

// ---- foreign memory ----

// What came of the frame goes to the slice from its byte `received` on.
void RequesterLink::begin_copy_out(const memory::Slice& slice, std::uint64_t received) noexcept {
  copy_out_ = {};
  copy_out_.slice = slice;
  copy_out_.slice.offset += received;
  copy_out_.slice.length = frame_.body_bytes;
  copy_out_.memory = &foreign_[0];
  copy_out_.length = frame_.body_bytes;
  copy_out_.stream = &scratch_digest_;
  copy_out_.direction = MoveDirection::out;
  is_copying_out_ = true;
  is_stopping_ = false;
  copying_since_ns_ = shared_.clock.now_ns();
}

int RequesterLink::copy_out(base::TimeNs now_ns) noexcept {
  // A client can make a copy into its memory hang. It must not hold up what others receive on this
  // link for long.
  const base::TimeNs patience_ns = shared_.config.peer_detection_ns / 3;
  if (!is_stopping_ && now_ns >= copying_since_ns_ + patience_ns) is_stopping_ = true;
  if (is_stopping_) {
    if (!shared_.mover.stop(copy_out_)) return 0;
    end_copy_out(Status::unreachable);
    return 1;
  }
  const MoveProgress progress = shared_.mover.step(copy_out_, copy_out_.length);
  if (progress == MoveProgress::waiting) return 0;
  if (progress == MoveProgress::done) end_copy_out(copy_out_.status);
  return 1;
}

// The frame is still the last one that came: nothing was taken since.
void RequesterLink::end_copy_out(Status status) noexcept {
  is_copying_out_ = false;
  TcpPosted& posted = slots_[frame_.slot];
  if (status != Status::ok) spoil_page(posted, frame_.page, status);
  if (posted.is_abandoned) fence_alone(frame_.slot);
  connection_.resume(*this);
}

}  // namespace simm::transport
