// HotReads: which slots have keys that the clients of this node read so often that the node serves
// them from its shared-read memory, though only one process reads at a time. In immutable
// namespaces alone: there a copy is as good as the object.
//
// A key that has a large part of all reads in the cluster has about that part of this node's reads,
// too. So each node counts for itself, and believes no other daemon. A sketch (space_saving.h) sees
// one page in kPagesPerSample on average, and every kHalfLifeNs what was before counts half. The
// sketch counts groups: parts of one page are one. Other keys of such a slot are served likewise;
// they are few, and it does them no harm.
// Owned by an Engine. Thread: its data agent.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/base/space_saving.h"
#include "daemon/transport/request.h"

namespace simm::engine {

class HotReads {
public:
  static constexpr std::uint32_t kPagesPerSample = 8;   // a power of two, on average
  static constexpr std::uint32_t kSamplesPerLook = 32;  // then the slots are found anew
  static constexpr std::uint32_t kSamplesMin = 8;       // of a hot key, for certain
  static constexpr std::uint32_t kPartsOfReads = 128;   // it has at least one of these
  static constexpr base::TimeNs kHalfLifeNs = 60 * base::kNsPerSecond;

  // Pages that are read, with their hashes.
  void note(const transport::RequestHeader& header, std::span<const transport::PageRequest> pages,
            base::TimeNs now_ns) noexcept {
    if (pages.size() < pages_left_) {
      pages_left_ -= static_cast<std::uint32_t>(pages.size());
    } else {
      sample(header, pages, now_ns);
    }
  }
  [[nodiscard]] bool has_any() const noexcept { return hot_count_ > 0; }
  [[nodiscard]] bool has(base::Slot slot) const noexcept { return hot_[slot]; }

private:
  void sample(const transport::RequestHeader& header, std::span<const transport::PageRequest> pages,
              base::TimeNs now_ns) noexcept;
  void look(base::TimeNs now_ns) noexcept;

  std::uint32_t pages_left_ = kPagesPerSample;  // the next sample is this one from here
  std::uint32_t samples_left_ = kSamplesPerLook;
  std::uint64_t draws_ = 0;
  base::TimeNs halve_ns_ = 0;  // when the past fades next; 0: not known yet
  base::SpaceSaving reads_;
  std::bitset<base::kSlotCount> hot_;
  std::uint32_t hot_count_ = 0;
};

}  // namespace simm::engine
