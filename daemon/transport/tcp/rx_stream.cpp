#include "daemon/transport/tcp/rx_stream.h"

#include <algorithm>
#include <cstring>

#include "daemon/transport/tcp/frame_codec.h"
#include "simm/check.h"

namespace simm::transport {

namespace {

constexpr std::uint32_t kStageBytes = 64 * 1024;
// One receive brings no more than what stays in the second-level cache until it is hashed.
constexpr std::uint32_t kDirectBytesMax = 256 * 1024;
// Behind a body of this size only the next header is staged, so that the body after it goes
// straight to its place as well.
constexpr std::uint32_t kLongBodyBytes = 16 * 1024;
constexpr std::uint32_t kHeaderBytes = sizeof(wire::FrameHeader);

iovec part(std::byte* at, std::uint32_t bytes) noexcept {
  return {at, bytes};
}

}  // namespace

RxStream::RxStream() : stage_(std::make_unique<std::byte[]>(kStageBytes)) {}

void RxStream::reset() noexcept {
  stage_begin_ = stage_end_ = direct_bytes_ = body_left_ = 0;
  in_body_ = false;
  target_ = nullptr;
}

void RxStream::prepare(IoSocket& socket) noexcept {
  const bool is_direct = in_body_ && target_ != nullptr && body_left_ > 0;
  direct_bytes_ = is_direct ? std::min(body_left_, kDirectBytesMax) : 0;
  if (!is_direct) {
    SIMM_CHECK(stage_end_ < kStageBytes);
    socket.receive_parts[0] = part(stage_.get() + stage_end_, kStageBytes - stage_end_);
    socket.receive_count = 1;
    return;
  }
  SIMM_CHECK(staged() == 0);  // it would have gone into the body
  socket.receive_parts[0] = part(target_, direct_bytes_);
  socket.receive_count = 1;
  if (direct_bytes_ < body_left_) return;
  const std::uint32_t behind = body_left_ >= kLongBodyBytes ? kHeaderBytes : kStageBytes;
  socket.receive_parts[1] = part(stage_.get(), behind);
  socket.receive_count = 2;
}

void RxStream::take_direct(std::uint32_t bytes, FrameHandler& handler) noexcept {
  body_left_ -= bytes;
  // SAFETY: the target has room for the whole body, and prepare() asked for no more.
  target_ = handler.on_piece(target_, bytes, nullptr) ? target_ + bytes : nullptr;
}

void RxStream::take_staged_body(FrameHandler& handler) noexcept {
  const std::uint32_t bytes = std::min(staged(), body_left_);
  const std::byte* const from = stage_.get() + stage_begin_;
  stage_begin_ += bytes;
  body_left_ -= bytes;
  if (target_ == nullptr || bytes == 0) return;
  // SAFETY: the target has room for the whole body.
  target_ = handler.on_piece(target_, bytes, from) ? target_ + bytes : nullptr;
}

bool RxStream::take_header(FrameHandler& handler) noexcept {
  wire::FrameHeader header;
  if (!open_header(stage_.get() + stage_begin_, seal_, header)) return false;
  stage_begin_ += kHeaderBytes;
  in_body_ = true;
  body_left_ = header.body_bytes;
  target_ = nullptr;
  return handler.on_frame(header, target_);
}

bool RxStream::take(std::uint32_t bytes, FrameHandler& handler) noexcept {
  const std::uint32_t direct = std::min(bytes, direct_bytes_);
  if (direct > 0) take_direct(direct, handler);
  direct_bytes_ = 0;
  if (staged() == 0) stage_begin_ = stage_end_ = 0;
  stage_end_ += bytes - direct;
  SIMM_CHECK(stage_end_ <= kStageBytes);
  bool goes_on = true;
  while (goes_on && !handler.is_paused()) {
    if (in_body_) {
      take_staged_body(handler);
      if (body_left_ > 0) break;
      in_body_ = false;
      goes_on = handler.on_frame_end();
    } else {
      if (staged() < kHeaderBytes) break;
      goes_on = take_header(handler);
    }
  }
  compact();
  return goes_on;
}

// What is left is the beginning of a header, or waits for the end of a pause.
void RxStream::compact() noexcept {
  if (stage_begin_ == 0) return;
  std::memmove(stage_.get(), stage_.get() + stage_begin_, staged());
  stage_end_ = staged();
  stage_begin_ = 0;
}

bool RxStream::take_fault(FrameHandler& handler) noexcept {
  if (direct_bytes_ == 0 || !handler.on_fault()) return false;
  direct_bytes_ = 0;
  target_ = nullptr;
  return true;
}

}  // namespace simm::transport
