// What a responder sends on a link: pulls, the payloads of gets, and replies.
#include <algorithm>
#include <cstring>

#include "daemon/transport/tcp/frame_codec.h"
#include "daemon/transport/tcp/responder_link.h"
#include "simm/check.h"

namespace simm::transport {

using wire::FrameHeader;
using wire::FrameKind;

namespace {

// Tags of payloads in the queue.
constexpr std::uint32_t kPageBits = 10;
static_assert(1u << kPageBits >= ipc::kPagesPerSubmissionMax);

}  // namespace

void ResponderLink::list(TcpIncoming& incoming) noexcept {
  if (incoming.is_listed || !connection_.is_open()) return;
  incoming.is_listed = true;
  work_.push(incoming.slot, incoming.header.tenant);
}

// ---- the server's calls ----

void ResponderLink::pull(TcpIncoming& incoming, std::uint16_t page,
                         std::span<std::byte> extent) noexcept {
  SIMM_CHECK(incoming.is_served && page < incoming.page_count);
  SIMM_CHECK(extent.size() == incoming.page_list[page].slice.length);
  TcpIncoming::PageMove& move = incoming.moves[page];
  SIMM_CHECK(move.kind == MoveKind::none);
  move = {};
  move.memory = extent.data();
  move.length = extent.size();
  move.kind = MoveKind::pull;
  serving_.begin_move(incoming);
  incoming.pulls.push(page);
  list(incoming);
}

void ResponderLink::push(TcpIncoming& incoming, std::uint16_t page,
                         std::span<const std::byte> bytes, bool) noexcept {
  SIMM_CHECK(incoming.is_served && page < incoming.page_count);
  SIMM_CHECK(bytes.size() <= incoming.page_list[page].slice.length);
  TcpIncoming::PageMove& move = incoming.moves[page];
  SIMM_CHECK(move.kind == MoveKind::none);
  move = {};
  // SAFETY: a push only reads its memory.
  move.memory = const_cast<std::byte*>(bytes.data());
  move.length = bytes.size();
  move.kind = MoveKind::push;
  serving_.begin_move(incoming);
  incoming.pushes.push(page);
  list(incoming);
}

void ResponderLink::reply(TcpIncoming& incoming, std::span<const PageReply> pages) noexcept {
  serving_.answer(incoming, pages.size());
  if (!connection_.is_open()) return;  // there is nobody to hear it
  std::copy(pages.begin(), pages.end(), incoming.replies.begin());
  incoming.is_replying = true;
  list(incoming);
}

// ---- turns ----

int ResponderLink::run(base::TimeNs) noexcept {
  if (!connection_.is_open()) return 0;
  int work = send_pongs();
  while (!work_.empty() && connection_.tx().queued_bytes() < kQueuedAnswerBytesMax) {
    TcpIncoming& incoming = slots_[work_.pop()];
    incoming.is_listed = false;
    const std::uint64_t queued_bytes = connection_.tx().queued_bytes();
    const Step did = step(incoming);
    if (did == Step::blocked) list(incoming);
    work_.end_turn(connection_.tx().queued_bytes() - queued_bytes);
    if (did == Step::blocked) break;
    ++work;
  }
  connection_.start(*this);
  return work;
}

int ResponderLink::send_pongs() noexcept {
  int sent = 0;
  const bool was_paused = is_paused();
  while (pongs_due_ > 0 && connection_.add_bare(frame_header(FrameKind::pong, 0, 0))) {
    --pongs_due_;
    ++sent;
  }
  if (was_paused && !is_paused()) connection_.resume(*this);
  return sent;
}

// One thing of a request; it stays listed while there are more.
ResponderLink::Step ResponderLink::step(TcpIncoming& incoming) noexcept {
  Step did = Step::done;
  if (incoming.is_replying) {
    did = queue_reply(incoming);
  } else if (incoming.is_served && incoming.pulls.count > 0) {
    did = queue_pulls(incoming);
  } else if (incoming.is_served && incoming.pushes.count > 0) {
    did = queue_chunk(incoming);
  }
  const bool has_more =
      incoming.is_replying ||
      (incoming.is_served && (incoming.pulls.count > 0 || incoming.pushes.count > 0));
  if (did == Step::done && has_more) list(incoming);
  return did;
}

ResponderLink::Step ResponderLink::queue_reply(TcpIncoming& incoming) noexcept {
  FrameHeader header = frame_header(FrameKind::reply, incoming.slot, incoming.use);
  header.body_bytes = incoming.page_count * static_cast<std::uint32_t>(sizeof(wire::ReplyEntry));
  TxQueue& tx = connection_.tx();
  std::byte* const frame = tx.reserve(sizeof header + header.body_bytes);
  if (frame == nullptr) return Step::blocked;
  std::byte* const body = frame + sizeof header;
  encode_reply(std::span<const PageReply>(incoming.replies).first(incoming.page_count), body);
  header.digest = connection_.seal().digest(body, header.body_bytes);
  seal_header(header, connection_.seal(), frame);
  tx.commit(sizeof header + header.body_bytes);
  incoming.is_replying = false;  // the slot is the requester's again
  return Step::done;
}

// Inline pages are here already; the others are announced together.
ResponderLink::Step ResponderLink::queue_pulls(TcpIncoming& incoming) noexcept {
  TxQueue& tx = connection_.tx();
  std::byte* const frame = tx.reserve(sizeof(FrameHeader) + wire::kPullBodyBytesMax);
  if (frame == nullptr) return Step::blocked;
  FrameHeader header = frame_header(FrameKind::pull, incoming.slot, incoming.use);
  std::byte* const body = frame + sizeof header;
  std::array<std::uint16_t, ipc::kPagesPerSubmissionMax> inline_pages;
  std::uint32_t inline_count = 0;
  for (; incoming.pulls.count > 0; incoming.pulls.pop()) {
    const std::uint16_t page = incoming.pulls.front();
    if (incoming.inline_at[page] != 0) {
      inline_pages[inline_count++] = page;
      continue;
    }
    std::memcpy(body + header.body_bytes, &page, sizeof page);
    header.body_bytes += static_cast<std::uint32_t>(sizeof page);
  }
  if (header.body_bytes > 0) {
    header.digest = connection_.seal().digest(body, header.body_bytes);
    seal_header(header, connection_.seal(), frame);
    tx.commit(sizeof header + header.body_bytes);
  }
  // Only now: the server may pull and answer while it is told.
  for (std::uint32_t i = 0; i < inline_count; ++i) copy_inline(incoming, inline_pages[i]);
  return Step::done;
}

void ResponderLink::copy_inline(TcpIncoming& incoming, std::uint16_t page) noexcept {
  if (incoming.is_cancelled) return end_move(incoming, page, {Status::cancelled, 0});
  const TcpIncoming::PageMove& move = incoming.moves[page];
  // SAFETY: decode_request() proved that the payload, as long as the page, lies in the body.
  const std::byte* const from = incoming.body.data() + incoming.inline_at[page];
  std::memcpy(move.memory, from, move.length);
  end_move(incoming, page, {Status::ok, base::payload_digest(move.memory, move.length)});
}

// ---- pushes ----

// A chunk of the first push, or the end of a cancelled one.
ResponderLink::Step ResponderLink::queue_chunk(TcpIncoming& incoming) noexcept {
  const std::uint16_t page = incoming.pushes.front();
  TcpIncoming::PageMove& move = incoming.moves[page];
  if (!incoming.is_cancelled) {
    if (!queue_data(incoming, page)) return Step::blocked;
    if (move.moved < move.length) return Step::done;
  }
  move.is_passed = true;
  incoming.pushes.pop();
  if (move.chunks_open == 0) end_push(incoming, page);
  return Step::done;
}

// False: no room. Short payloads are copied behind their header.
bool ResponderLink::queue_data(TcpIncoming& incoming, std::uint16_t page) noexcept {
  TcpIncoming::PageMove& move = incoming.moves[page];
  const auto bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(move.length - move.moved, kChunkBytes));
  const bool is_copied = move.length <= kCopiedBytesMax;
  const auto frame_bytes =
      static_cast<std::uint32_t>(sizeof(FrameHeader) + (is_copied ? bytes : 0));
  TxQueue& tx = connection_.tx();
  if (!tx.has_room(frame_bytes)) return false;
  std::byte* const frame = tx.reserve(frame_bytes);
  // SAFETY: moved + bytes <= length.
  const std::byte* const from = move.memory + move.moved;
  base::PayloadDigest& digest = push_digests_[incoming.slot];
  if (move.moved == 0) digest.begin();
  digest.add(from, bytes);
  FrameHeader header = frame_header(FrameKind::data, incoming.slot, incoming.use);
  header.page = page;
  header.offset = move.moved;
  header.body_bytes = bytes;
  move.moved += bytes;
  if (move.moved == move.length) {
    move.digest = header.digest = digest.value();
    header.flags = wire::kFlagLast;
  }
  seal_header(header, connection_.seal(), frame);
  if (is_copied && bytes > 0) std::memcpy(frame + sizeof header, from, bytes);
  tx.commit(frame_bytes);
  if (!is_copied) {
    ++move.chunks_open;
    tx.add_payload(from, bytes, incoming.slot << kPageBits | page);
  }
  return true;
}

void ResponderLink::end_push(TcpIncoming& incoming, std::uint16_t page) noexcept {
  const TcpIncoming::PageMove& move = incoming.moves[page];
  const bool is_whole = move.moved == move.length && !incoming.is_cancelled;
  end_move(incoming, page, {is_whole ? Status::ok : Status::cancelled, move.digest});
}

void ResponderLink::on_payload_sent(std::uint32_t tag) noexcept {
  TcpIncoming& incoming = slots_[tag >> kPageBits];
  const auto page = static_cast<std::uint16_t>(tag & ((1u << kPageBits) - 1));
  TcpIncoming::PageMove& move = incoming.moves[page];
  serving_.progress().note();
  if (--move.chunks_open == 0 && move.is_passed) end_push(incoming, page);
}

}  // namespace simm::transport
