#include "daemon/transport/tcp/tx_queue.h"

#include <algorithm>

#include "daemon/transport/tcp/wire.h"
#include "simm/check.h"

namespace simm::transport {

static_assert(TxQueue::kFrameBytesMax >= sizeof(wire::FrameHeader) + wire::kRequestBodyBytesMax);

namespace {
// One send call: a few chunks, so that small frames get their turn and the call stays short.
constexpr std::uint64_t kSendBytesMax = 1024 * 1024;
}  // namespace

TxQueue::TxQueue() : ring_(kRingBytes) {}

void TxQueue::reset() noexcept {
  ring_head_ = ring_tail_ = queued_bytes_ = 0;
  first_ = count_ = sent_ = gap_ = 0;
  holds_begun_ = holds_over_ = 0;
  over_ = 0;
}

std::uint32_t TxQueue::gap_before(std::uint32_t bytes) const noexcept {
  const std::uint64_t at = ring_tail_ % kRingBytes;
  return bytes <= kRingBytes - at ? 0 : static_cast<std::uint32_t>(kRingBytes - at);
}

bool TxQueue::has_room(std::uint32_t bytes) const noexcept {
  if (count_ == 0) return bytes <= kFrameBytesMax;
  if (count_ + 2 > kSegments) return false;
  return std::uint64_t{gap_before(bytes)} + bytes <= kRingBytes - (ring_tail_ - ring_head_);
}

std::byte* TxQueue::reserve(std::uint32_t bytes) noexcept {
  SIMM_CHECK(bytes <= kFrameBytesMax);
  if (count_ == 0) ring_head_ = ring_tail_ = 0;
  if (!has_room(bytes)) return nullptr;
  gap_ = gap_before(bytes);
  return &ring_[(ring_tail_ + gap_) % kRingBytes];
}

TxQueue::Segment& TxQueue::push() noexcept {
  SIMM_CHECK(count_ < kSegments);
  Segment& segment = segments_[(first_ + count_) % kSegments];
  ++count_;
  segment = {};
  return segment;
}

void TxQueue::commit(std::uint32_t bytes) noexcept {
  const std::byte* const data = &ring_[(ring_tail_ + gap_) % kRingBytes];
  Segment* segment = empty() ? nullptr : &segments_[(first_ + count_ - 1) % kSegments];
  // Short frames in a row become one piece. One that is being sent may grow: what is sent of it is
  // counted.
  const bool joins =
      segment != nullptr && !segment->is_payload && segment->data + segment->left == data;
  if (!joins) {
    segment = &push();
    segment->data = data;
  }
  segment->left += bytes;
  segment->ring_bytes += gap_ + bytes;
  ring_tail_ += gap_ + bytes;
  queued_bytes_ += bytes;
  gap_ = 0;
}

void TxQueue::add_payload(const std::byte* data, std::uint32_t bytes, std::uint32_t tag) noexcept {
  Segment& segment = push();
  segment.data = data;
  segment.left = bytes;
  segment.tag = tag;
  segment.is_payload = true;
  queued_bytes_ += bytes;
}

std::uint64_t TxQueue::prepare(IoSocket& socket) const noexcept {
  std::uint64_t bytes = 0;
  std::uint64_t payload = 0;
  std::size_t parts = 0;
  for (std::uint32_t i = sent_; i < count_ && parts < kSendParts && bytes < kSendBytesMax; ++i) {
    const Segment& segment = segments_[(first_ + i) % kSegments];
    // SAFETY: the kernel only reads what it sends.
    socket.send_parts[parts++] = {const_cast<std::byte*>(segment.data), segment.left};
    bytes += segment.left;
    if (segment.is_payload) payload += segment.left;
  }
  socket.send_count = parts;
  return payload;
}

void TxQueue::take_sent(std::uint32_t bytes, PayloadOwner& owner) noexcept {
  queued_bytes_ -= bytes;
  while (sent_ < count_) {
    Segment& segment = segments_[(first_ + sent_) % kSegments];
    const std::uint32_t taken = std::min(bytes, segment.left);
    // SAFETY: `left` bytes are left at `data`.
    segment.data += taken;
    segment.left -= taken;
    bytes -= taken;
    if (segment.left > 0) break;
    segment.holds = holds_begun_;
    ++sent_;
  }
  SIMM_CHECK(bytes == 0);
  give_back(owner);
}

void TxQueue::release(std::uint32_t numbers, PayloadOwner& owner) noexcept {
  over_ |= numbers;
  while (holds_over_ < holds_begun_) {
    const std::uint32_t oldest = 1u << (holds_over_ % kSendsHeldMax);
    if ((over_ & oldest) == 0) break;
    over_ &= ~oldest;
    ++holds_over_;
  }
  give_back(owner);
}

void TxQueue::give_back(PayloadOwner& owner) noexcept {
  while (sent_ > 0 && segments_[first_].holds <= holds_over_) {
    const Segment done = segments_[first_];
    ring_head_ += done.ring_bytes;
    first_ = (first_ + 1) % kSegments;
    --count_;
    --sent_;
    if (done.is_payload) owner.on_payload_sent(done.tag);
  }
}

}  // namespace simm::transport
