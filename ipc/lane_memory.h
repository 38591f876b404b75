// The parts of one lane: pointers into shared memory. They are computed from a base that the owner
// of the mapping gives and from constants of the layout, never from a value in the memory.
// Owned by nobody: the mapping outlives it. Stays inside ipc/; what leaves is private copies.
// Thread: any (immutable).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ipc/layout.h"

namespace simm::ipc {

class LaneMemory {
public:
  // `lane_base` points at the first byte of a mapped lane of kLaneBytes, 128-byte aligned.
  explicit LaneMemory(std::byte* lane_base) noexcept : base_(lane_base) {}

  // SAFETY of all casts below: layout.h asserts that the offsets are multiples of the types'
  // alignment and lie inside kLaneBytes. The caller masks or range-checks each index.
  [[nodiscard]] LaneControl* control() const noexcept {
    return reinterpret_cast<LaneControl*>(base_);
  }
  [[nodiscard]] Submission* submission(std::uint32_t cursor) const noexcept {
    return reinterpret_cast<Submission*>(base_ + kLaneSubmissionsOffset) +
           (cursor & (kSubmissionSlots - 1));
  }
  [[nodiscard]] Completion* completion(std::uint32_t cursor) const noexcept {
    return reinterpret_cast<Completion*>(base_ + kLaneCompletionsOffset) +
           (cursor & (kCompletionSlots - 1));
  }
  [[nodiscard]] PageDescriptor* page(std::uint32_t index) const noexcept {
    return reinterpret_cast<PageDescriptor*>(base_ + kLanePagesOffset) + index;
  }
  [[nodiscard]] PageResult* result(std::uint32_t index) const noexcept {
    return reinterpret_cast<PageResult*>(base_ + kLaneResultsOffset) + index;
  }
  [[nodiscard]] TraceContext* trace(std::uint32_t cursor) const noexcept {
    return reinterpret_cast<TraceContext*>(base_ + kLaneTracesOffset) +
           (cursor & (kSubmissionSlots - 1));
  }
  [[nodiscard]] std::byte* keys(std::uint32_t offset) const noexcept {
    return base_ + kLaneKeysOffset + offset;
  }

private:
  std::byte* base_;
};

// The base of lane `lane` (less than the granted number of lanes) of a mapped session.
[[nodiscard]] inline std::byte* lane_base(std::byte* session_base, std::uint32_t lane) noexcept {
  return session_base + sizeof(SessionHeader) + std::size_t{lane} * kLaneBytes;
}

static_assert((kSubmissionSlots & (kSubmissionSlots - 1)) == 0);
static_assert((kCompletionSlots & (kCompletionSlots - 1)) == 0);
static_assert(kCompletionSlots >= kSubmissionSlots);
static_assert(sizeof(SessionHeader) % 128 == 0 && kLaneBytes % 128 == 0);

}  // namespace simm::ipc
