// The cancelling part of LaneDriver: what a run leaves to the daemon without waiting for it.
#include <algorithm>

#include "libclient/lane_driver.h"

namespace simm::detail {

// Staging memory stays the lane's until the answer is there.
bool LaneDriver::reaches_memory(const Lane& lane, const InFlight& entry) noexcept {
  if (!entry.run->moves_bytes()) return false;
  const PageSlot* const first = &lane.slots[entry.page_first];
  return std::any_of(first, first + entry.page_count,
                     [](const PageSlot& slot) { return slot.staging == nullptr; });
}

void LaneDriver::abandon_answers(Lane& lane, BatchRun& run) noexcept {
  for (std::uint32_t sequence = lane.head; sequence != lane.tail; ++sequence) {
    InFlight& entry = lane.entry(sequence);
    if (entry.run != &run || reaches_memory(lane, entry)) continue;
    for (std::uint32_t i = 0; i < entry.page_count; ++i) {
      run.pages.set(lane.slots[entry.page_first + i].item, Status::cancelled, 0);
    }
    release(lane, entry);
    entry.run = &lane.nobody;
    ++lane.nobody.submissions_open;
    // The daemon's silence about one that nobody waits for shows at the latest end of any.
    lane.nobody.deadline_ns = std::max(lane.nobody.deadline_ns, run.deadline_ns);
    run.outcome = Status::cancelled;
    --run.submissions_open;
  }
  run.end_pass();
}

}  // namespace simm::detail
