#include "libclient/batch_run.h"

namespace simm::detail {

void BatchRun::stop(Status reason) noexcept {
  if (all_submitted()) return;
  for (; next < pages.size(); ++next) {
    if (is_due(next)) pages.set(next, reason, 0);
  }
  noop_pushed = true;
  outcome = reason;
  end_pass();
}

void BatchRun::end_pass() noexcept {
  if (absent_pages == 0 || !all_submitted() || submissions_open != 0) return;
  absent_pages = 0;
  if (is_cancelled) outcome = Status::cancelled;
  if (outcome == Status::ok && attempt != Attempt::staged) {
    attempt = attempt == Attempt::first ? Attempt::made_present : Attempt::staged;
    next = 0;
    return;
  }
  const ErrorScope scope(text);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (!pages.is_absent(i)) continue;
    pages.set(i, outcome != Status::ok ? outcome : refuse_absent(i), 0);
  }
}

Status BatchRun::refuse_absent(std::size_t index) noexcept {
  return fail(Status::out_of_memory,
              "items[%zu].view: the memory behind it is not present, and the daemon makes no more "
              "of it so (memory.touch_budget_bytes): write to the memory once before the call",
              index);
}

}  // namespace simm::detail
