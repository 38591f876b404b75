#include "libclient/presence.h"

#include <algorithm>

#include "ipc/range.h"
#include "libclient/last_error.h"

namespace simm::detail {

Status Presence::make(const BatchRun& run, const PageSlot& slot, std::uint64_t length,
                      bool& has_waited) noexcept {
  RegionRecord& region = *slot.region;
  const bool anew = run.attempt == Attempt::made_present;
  if (!anew && region.present().known(slot.offset, length)) return Status::ok;
  if (!region.wants_presence()) return Status::ok;
  has_waited = true;
  const auto made = region.present().make(slot.offset, length, run.deadline_ns, anew);
  // What the kernel does not make present the daemon may have a better answer to.
  if (made == PresentPages::Made::failed) return Status::ok;
  if (made == PresentPages::Made::late) {
    return fail(Status::timeout,
                "items[%zu].view: its memory was not present and could not be made so by the "
                "deadline: touch the memory first, or raise timeout_ms",
                slot.item);
  }
  made_bytes_.fetch_add(length, std::memory_order_relaxed);
  return Status::ok;
}

void Presence::make(const BatchRun& run) noexcept {
  if (!run.moves_bytes()) return;
  RegionRecord* held = nullptr;
  for (std::size_t i = run.next; i < run.pages.size(); ++i) {
    const Item page = run.pages.page(i);
    PageSlot slot;
    slot.item = i;
    slot.offset = page.view.offset();
    slot.length = page.view.length();
    slot.region = page.view.record();
    const bool by_address = slot.region == nullptr;
    if (slot.length == 0) continue;
    if (by_address) {
      const bool same = held != nullptr && held->covers(slot.offset, slot.length);
      slot.region = same ? held : regions_.find(slot.offset, slot.length);
    }
    if (slot.region == nullptr || slot.region->present().all()) continue;
    if (slot.region != held) {
      if (held != nullptr) held->end_use();
      held = slot.region->begin_use() ? slot.region : nullptr;
      if (held == nullptr) continue;
    }
    // What is wrong with the view is said when its page is pushed.
    if (by_address) {
      if (!held->covers(slot.offset, slot.length)) continue;
      slot.offset -= reinterpret_cast<std::uintptr_t>(held->address());
    } else if (held->generation() != page.view.generation() ||
               !ipc::range_within(slot.offset, slot.length, held->length())) {
      continue;
    }
    bool has_waited = false;
    const std::uint64_t length = std::min(slot.length, ipc::kValueBytesMax);
    if (make(run, slot, length, has_waited) != Status::ok) break;
  }
  if (held != nullptr) held->end_use();
}

}  // namespace simm::detail
