// What a requester sends on a link: request frames and the payloads of puts.
#include <algorithm>
#include <cstring>

#include "daemon/transport/tcp/frame_codec.h"
#include "daemon/transport/tcp/requester_link.h"
#include "simm/check.h"

namespace simm::transport {

using wire::FrameHeader;
using wire::FrameKind;

using memory::Reach;

void RequesterLink::list(std::uint32_t slot) noexcept {
  TcpPosted& posted = slots_[slot];
  if (posted.is_listed) return;
  posted.is_listed = true;
  work_.push(slot, posted.header.tenant);
}

std::byte* RequesterLink::block_at(std::uint32_t block) noexcept {
  return &blocks_[std::size_t{block} * kChunkBytes];
}

bool RequesterLink::take_block(const PageRequest& page, std::uint32_t& block) noexcept {
  const std::uint32_t kept =
      page.slice.is_reached_by(Reach::helper) ? kBlocks - kBlocksForForeign : 0;
  if (free_block_count_ <= kept) return false;
  block = free_blocks_[--free_block_count_];  // the one that was used last is still in cache
  return true;
}

// Tags of payloads in the queue are block numbers.
void RequesterLink::on_payload_sent(std::uint32_t tag) noexcept {
  free_blocks_[free_block_count_++] = tag;
  ++moved_;
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
  const TcpPosted& posted = slots_[slot];
  if (!posted.in_use) return Step::done;
  if (!posted.is_encoded) return encode(slot);
  return posted.pull_count > 0 ? send_page(slot) : Step::done;
}

std::uint64_t RequesterLink::remaining_ns(base::TimeNs deadline_ns) const noexcept {
  if (deadline_ns == 0) return wire::kNoDeadline;
  const base::TimeNs now_ns = shared_.clock.fresh_ns();
  return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

RequesterLink::Step RequesterLink::encode(std::uint32_t slot) noexcept {
  TcpPosted& posted = slots_[slot];
  const std::uint32_t fixed_bytes = request_body_bytes(posted.pages);
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
    payload_bytes = copy_inline_pages(posted, body + fixed_bytes, is_inline);
  }
  // The time is read behind the copies: what was copied too late is refused by the server.
  encode_request(posted.header, remaining_ns(posted.header.deadline_ns), posted.pages, is_inline,
                 body);
  FrameHeader header = frame_header(FrameKind::request, slot, posted.use);
  header.body_bytes = fixed_bytes + payload_bytes;
  header.digest = connection_.seal().digest(body, header.body_bytes);
  seal_header(header, connection_.seal(), frame);
  tx.commit(sizeof header + header.body_bytes);
  posted.is_encoded = true;
  return Step::done;
}

// Short pages of mapped regions. One that can not be read is not inline: the server pulls it, and
// learns then that it does not come.
std::uint32_t RequesterLink::copy_inline_pages(const TcpPosted& posted, std::byte* to,
                                               std::span<std::uint8_t> is_inline) noexcept {
  std::uint32_t bytes = 0;
  for (std::size_t i = 0; i < posted.pages.size(); ++i) {
    const PageRequest& page = posted.pages[i];
    const std::uint64_t length = page.slice.length;
    if (length == 0 || length > shared_.config.inline_page_bytes) continue;
    if (!page.slice.is_reached_by(Reach::mapped)) continue;
    if (length > wire::kInlineBytesMax - bytes) break;
    Move move;
    move.slice = page.slice;
    move.memory = to + bytes;
    move.length = length;
    move.stream = &scratch_digest_;
    if (shared_.mover.step(move, length) != MoveProgress::done || move.status != Status::ok) {
      continue;
    }
    is_inline[i] = 1;
    bytes += static_cast<std::uint32_t>(length);
  }
  return bytes;
}

// ---- pages that were pulled ----

// A chunk of the first of them.
RequesterLink::Step RequesterLink::send_page(std::uint32_t slot) noexcept {
  TcpPosted& posted = slots_[slot];
  if (!connection_.tx().has_room(sizeof(FrameHeader))) return Step::blocked;
  const PageRequest& page = posted.pages[posted.pulled[posted.pull_first]];
  if (posted.is_cancelling) {
    if (posted.is_moving && !shared_.mover.stop(posted.move)) return Step::waiting;
    return end_page(slot, Status::cancelled);
  }
  if (!posted.is_moving) {
    if (!take_block(page, posted.block)) {
      return page.slice.is_reached_by(Reach::helper) ? Step::waiting : Step::blocked;
    }
    const std::uint64_t left = page.slice.length - posted.page_sent;
    posted.move = {};
    posted.move.slice = page.slice;
    posted.move.slice.offset += posted.page_sent;
    posted.move.slice.length = std::min<std::uint64_t>(left, kChunkBytes);
    posted.move.memory = block_at(posted.block);
    posted.move.length = posted.move.slice.length;
    posted.move.stream = &scratch_digest_;
    posted.is_moving = true;
  }
  MoveProgress progress = MoveProgress::running;
  while (progress == MoveProgress::running) {
    progress = shared_.mover.step(posted.move, posted.move.length);
  }
  if (progress == MoveProgress::waiting) return Step::waiting;
  if (posted.move.status != Status::ok) {
    if (posted.move.status == Status::transfer_failed && shared_.faults != nullptr) {
      shared_.faults->on_region_fault(*page.slice.region);
    }
    return end_page(slot, posted.move.status);
  }
  return queue_chunk(slot);
}

// The chunk is in its block: hashed while it is in cache, and queued.
RequesterLink::Step RequesterLink::queue_chunk(std::uint32_t slot) noexcept {
  TcpPosted& posted = slots_[slot];
  const std::uint16_t number = posted.pulled[posted.pull_first];
  const PageRequest& page = posted.pages[number];
  const auto bytes = static_cast<std::uint32_t>(posted.move.length);
  const bool is_last = posted.page_sent + bytes == page.slice.length;
  // What is read after the deadline may be what its client wrote after it had given up waiting (we
  // were stopped in between): it must not become an object.
  if (is_last && remaining_ns(posted.header.deadline_ns) == 0) {
    return end_page(slot, Status::timeout);
  }
  base::PayloadDigest& digest = digests_[slot];
  if (posted.page_sent == 0) digest.begin();
  digest.add(posted.move.memory, bytes);
  FrameHeader header = frame_header(FrameKind::data, slot, posted.use);
  header.page = number;
  header.offset = posted.page_sent;
  header.body_bytes = bytes;
  if (is_last) {
    header.flags = wire::kFlagLast;
    header.digest = digest.value();
  }
  SIMM_CHECK(connection_.add_bare(header));  // there is room, as send_page() saw
  posted.is_moving = false;
  if (bytes > 0) {
    connection_.tx().add_payload(block_at(posted.block), bytes, posted.block);
  } else {
    on_payload_sent(posted.block);
  }
  posted.page_sent += bytes;
  if (is_last) return end_page(slot, Status::ok);
  list(slot);
  return Step::done;
}

// The page is sent (ok), or the server is told that it does not come.
RequesterLink::Step RequesterLink::end_page(std::uint32_t slot, Status failure) noexcept {
  TcpPosted& posted = slots_[slot];
  if (failure != Status::ok) {
    FrameHeader header = frame_header(FrameKind::failed, slot, posted.use);
    header.page = posted.pulled[posted.pull_first];
    header.status = static_cast<std::int32_t>(failure);
    SIMM_CHECK(connection_.add_bare(header));
    if (posted.is_moving) on_payload_sent(posted.block);
    posted.is_moving = false;
  }
  posted.page_sent = 0;
  posted.pull_first = static_cast<std::uint16_t>((posted.pull_first + 1u) % posted.pulled.size());
  --posted.pull_count;
  if (posted.pull_count > 0) list(slot);
  return Step::done;
}

}  // namespace simm::transport
