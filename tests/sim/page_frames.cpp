#include "tests/sim/page_frames.h"

#include "tests/sim/payload.h"

namespace simm::sim {

PageFrames::PageFrames(std::uint32_t frames, std::uint32_t frame_bytes, std::uint64_t owner)
    : stride_(frame_bytes + 2 * kGuardBytes),
      owner_(owner),
      memory_(std::size_t{frames} * stride_),
      canary_(frames) {
  for (std::uint32_t frame = 0; frame < frames; ++frame) abandon(frame);
}

std::span<std::byte> PageFrames::whole(std::uint32_t frame) {
  return std::span(memory_).subspan(std::size_t{frame} * stride_, stride_);
}

std::span<const std::byte> PageFrames::whole(std::uint32_t frame) const {
  return std::span(memory_).subspan(std::size_t{frame} * stride_, stride_);
}

std::uint64_t PageFrames::offset(std::uint32_t frame) const {
  return std::uint64_t{frame} * stride_ + kGuardBytes;
}

std::span<std::byte> PageFrames::bytes(std::uint32_t frame, std::uint64_t length) {
  return whole(frame).subspan(kGuardBytes, length);
}

std::uint32_t PageFrames::take(Report& report) {
  const std::uint32_t frame = free_.front();
  free_.erase(free_.begin());
  check(frame, 0, stride_, "after its operation had completed", report);
  return frame;
}

void PageFrames::give_back(std::uint32_t frame, std::uint64_t length, Report& report) {
  check(frame, 0, kGuardBytes, "before its slice", report);
  check(frame, kGuardBytes + length, stride_, "behind its slice", report);
  abandon(frame);
}

void PageFrames::abandon(std::uint32_t frame) {
  canary_[frame] = ++canaries_;
  Payload::of(~owner_, canary_[frame]).fill(whole(frame));
  free_.push_back(frame);
}

void PageFrames::check_free(Report& report) const {
  for (const std::uint32_t frame : free_) {
    check(frame, 0, stride_, "after its operation had completed", report);
  }
}

void PageFrames::check(std::uint32_t frame, std::uint64_t from, std::uint64_t to, const char* when,
                       Report& report) const {
  const auto bytes = whole(frame).subspan(from, to - from);
  if (Payload::of(~owner_, canary_[frame]).matches(bytes, from)) return;
  report.violation("P1", "page %u of client %llu was written %s", frame,
                   static_cast<unsigned long long>(owner_), when);
}

}  // namespace simm::sim
