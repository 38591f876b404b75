#include "daemon/transport/tcp/tx_queue.h"

#include <algorithm>

#include "daemon/transport/tcp/tcp_config.h"
#include "daemon/transport/tcp/wire.h"
#include "simm/check.h"

namespace simm::transport {

static_assert(TxQueue::kFrameBytesMax >= sizeof(wire::FrameHeader) + wire::kRequestBodyBytesMax);

namespace {
// One send call: a few chunks, so that small frames get their turn and the call stays short.
constexpr std::uint64_t kSendBytesMax = 1024 * 1024;
// What is sent for a client's memory that has vanished.
constinit const std::array<std::byte, kChunkBytes> kZeros{};
}  // namespace

TxQueue::TxQueue() : ring_(kRingBytes) {}

void TxQueue::reset() noexcept {
  ring_head_ = ring_tail_ = queued_bytes_ = 0;
  first_ = count_ = sent_ = named_ = alone_ = gap_ = 0;
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
  const bool joins = segment != nullptr && segment->memory == Memory::ring &&
                     segment->data + segment->left == data;
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

void TxQueue::push_payload(Memory memory, const std::byte* data, std::uint32_t bytes,
                           std::uint32_t tag) noexcept {
  Segment& segment = push();
  segment.data = data;
  segment.left = bytes;
  segment.tag = tag;
  segment.memory = memory;
  queued_bytes_ += bytes;
}

void TxQueue::add_payload(const std::byte* data, std::uint32_t bytes, std::uint32_t tag) noexcept {
  push_payload(Memory::own, data, bytes, tag);
}

void TxQueue::add_client_payload(const std::byte* data, std::uint32_t bytes,
                                 std::uint32_t tag) noexcept {
  SIMM_CHECK(bytes <= kZeros.size());
  push_payload(Memory::client, data, bytes, tag);
}

std::uint64_t TxQueue::prepare(IoSocket& socket) noexcept {
  std::uint64_t bytes = 0;
  std::uint64_t own_payload = 0;
  bool has_client = false;
  const std::size_t parts_max = alone_ > 0 ? 1 : kSendParts;
  named_ = 0;
  for (std::uint32_t i = sent_; i < count_ && named_ < parts_max && bytes < kSendBytesMax; ++i) {
    const Segment& segment = segments_[(first_ + i) % kSegments];
    // SAFETY: the kernel only reads what it sends.
    socket.send_parts[named_++] = {const_cast<std::byte*>(segment.data), segment.left};
    bytes += segment.left;
    if (segment.memory == Memory::own) own_payload += segment.left;
    has_client = has_client || segment.memory == Memory::client;
  }
  socket.send_count = named_;
  return has_client ? 0 : own_payload;
}

bool TxQueue::take_fault(PayloadOwner& owner) noexcept {
  if (named_ > 1) {
    // One of them, and the kernel does not say which.
    bool has_client = false;
    for (std::uint32_t i = sent_; i < sent_ + named_; ++i) {
      has_client = has_client || segments_[(first_ + i) % kSegments].memory == Memory::client;
    }
    alone_ = has_client ? named_ : 0;
    return has_client;
  }
  Segment& segment = segments_[(first_ + sent_) % kSegments];
  if (segment.memory != Memory::client || segment.data == kZeros.data()) return false;
  segment.data = kZeros.data();
  owner.on_payload_vanished(segment.tag);
  return true;
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
    if (alone_ > 0) --alone_;
    if (segment.memory == Memory::client) owner.on_payload_sent(segment.tag);
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
    if (done.memory == Memory::own) owner.on_payload_sent(done.tag);
  }
}

}  // namespace simm::transport
