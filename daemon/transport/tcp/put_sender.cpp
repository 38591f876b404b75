#include "daemon/transport/tcp/put_sender.h"

#include <algorithm>

#include "daemon/memory/copy_untrusted.h"
#include "daemon/transport/digest_sink.h"
#include "daemon/transport/tcp/frame_codec.h"
#include "simm/check.h"

namespace simm::transport {

using memory::Reach;
using wire::FrameHeader;
using wire::FrameKind;

PutSender::PutSender(RequesterLinkShared& shared, TcpConnection& connection)
    : shared_(shared), connection_(connection), blocks_(std::size_t{kBlocks} * kChunkBytes) {}

std::uint32_t PutSender::copy_inline_pages(const TcpPosted& posted, std::byte* to,
                                           std::span<std::uint8_t> is_inline) noexcept {
  // The time to live of what moves began long ago. Bytes that are pulled leave here before the
  // deadline. Those in a request might be read by a daemon that was stopped meanwhile for long.
  if (posted.header.is_moved && posted.header.ttl_ms != 0) return 0;
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

// False: no block is free for it.
bool PutSender::begin_chunk(TcpPosted& posted, const PageRequest& page) noexcept {
  const bool is_foreign = page.slice.is_reached_by(Reach::helper);
  if (free_.count() <= (is_foreign ? kBlocks - kBlocksForForeign : 0)) return false;
  posted.block = free_.take();  // the one that was used last is still in cache
  const std::uint64_t left = page.slice.length - posted.page_sent;
  posted.move = {};
  posted.move.slice = page.slice;
  posted.move.slice.offset += posted.page_sent;
  posted.move.slice.length = std::min<std::uint64_t>(left, kChunkBytes);
  posted.move.memory = block_at(posted.block);
  posted.move.length = posted.move.slice.length;
  posted.move.stream = &scratch_digest_;
  posted.is_moving = true;
  return true;
}

bool PutSender::stop(TcpPosted& posted) noexcept {
  if (posted.is_moving && shared_.mover.stop(posted.move)) posted.is_moving = false;
  return !posted.is_moving;
}

// A chunk of the first of them.
PutSender::Step PutSender::send_page(TcpPosted& posted, std::uint32_t slot,
                                     base::PayloadDigest& digest) noexcept {
  if (!connection_.tx().has_room(sizeof(FrameHeader))) return Step::blocked;
  const PageRequest& page = posted.pages[posted.pulled[posted.pull_first]];
  if (posted.is_cancelling) {
    if (posted.is_moving && !shared_.mover.stop(posted.move)) return Step::waiting;
    return end_page(posted, slot, Status::cancelled);
  }
  if (page.slice.is_reached_by(Reach::mapped)) return send_chunk(posted, slot, digest);
  if (!posted.is_moving && !begin_chunk(posted, page)) {
    return page.slice.is_reached_by(Reach::helper) ? Step::waiting : Step::blocked;
  }
  MoveProgress progress = MoveProgress::running;
  while (progress == MoveProgress::running) {
    progress = shared_.mover.step(posted.move, posted.move.length);
  }
  if (progress == MoveProgress::waiting) return Step::waiting;
  if (posted.move.status != Status::ok) return fail_page(posted, slot, posted.move.status);
  return send_block(posted, slot, digest);
}

// Where it lies: read for the digest, so that the kernel finds it in cache.
PutSender::Step PutSender::send_chunk(TcpPosted& posted, std::uint32_t slot,
                                      base::PayloadDigest& digest) noexcept {
  const std::uint16_t number = posted.pulled[posted.pull_first];
  const memory::Slice& slice = posted.pages[number].slice;
  const std::uint64_t left = slice.length - posted.page_sent;
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, kChunkBytes));
  if (posted.page_sent == 0) digest.begin();
  Status status = Status::ok;
  const std::byte* const at = memory::kernel_place(slice, posted.page_sent, bytes, status);
  if (at != nullptr) {
    status = memory::show_untrusted(slice, posted.page_sent, bytes, digest_sink(&digest));
  }
  if (status != Status::ok) return fail_page(posted, slot, status);
  return queue_chunk(posted, slot, digest, {at, bytes}, kClientTag | slot << 16 | number);
}

// The chunk is in its block: hashed while it is in cache, and queued.
PutSender::Step PutSender::send_block(TcpPosted& posted, std::uint32_t slot,
                                      base::PayloadDigest& digest) noexcept {
  if (posted.page_sent == 0) digest.begin();
  digest.add(posted.move.memory, posted.move.length);
  return queue_chunk(posted, slot, digest, {posted.move.memory, posted.move.length}, posted.block);
}

// The page's next chunk, which the digest has. `tag`: of its payload.
PutSender::Step PutSender::queue_chunk(TcpPosted& posted, std::uint32_t slot,
                                       const base::PayloadDigest& digest,
                                       std::span<const std::byte> chunk,
                                       std::uint32_t tag) noexcept {
  const std::uint16_t number = posted.pulled[posted.pull_first];
  const auto bytes = static_cast<std::uint32_t>(chunk.size());
  const bool is_last = posted.page_sent + bytes == posted.pages[number].slice.length;
  // What was read after the deadline may be what its client wrote after it had given up waiting (we
  // were stopped in between): it must not become an object.
  if (is_last && shared_.remaining_ns(posted.header.deadline_ns) == 0) {
    return end_page(posted, slot, Status::timeout);
  }
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
  if (client_chunk(tag)) {
    if (bytes > 0) connection_.tx().add_client_payload(chunk.data(), bytes, tag);
    posted.unsent += bytes > 0 ? 1 : 0;
  } else if (bytes > 0) {
    connection_.tx().add_payload(chunk.data(), bytes, tag);
  } else {
    free_.give(tag);
  }
  posted.page_sent += bytes;
  return is_last ? end_page(posted, slot, Status::ok) : Step::done;
}

PutSender::Step PutSender::fail_page(TcpPosted& posted, std::uint32_t slot,
                                     Status failure) noexcept {
  const PageRequest& page = posted.pages[posted.pulled[posted.pull_first]];
  if (failure == Status::transfer_failed && shared_.faults != nullptr) {
    shared_.faults->on_region_fault(*page.slice.region);
  }
  return end_page(posted, slot, failure);
}

// The page is sent (ok), or the server is told that it does not come.
PutSender::Step PutSender::end_page(TcpPosted& posted, std::uint32_t slot,
                                    Status failure) noexcept {
  if (failure != Status::ok) {
    FrameHeader header = frame_header(FrameKind::failed, slot, posted.use);
    header.page = posted.pulled[posted.pull_first];
    header.status = static_cast<std::int32_t>(failure);
    SIMM_CHECK(connection_.add_bare(header));
    if (posted.is_moving) free_.give(posted.block);
    posted.is_moving = false;
  }
  posted.page_sent = 0;
  posted.pull_first = static_cast<std::uint16_t>((posted.pull_first + 1u) % posted.pulled.size());
  --posted.pull_count;
  return Step::done;
}

}  // namespace simm::transport
