// BatchRun: one call of any length on its way: which pages were submitted, how many submissions are
// in flight, and what stopped it. On the caller's stack, or owned by an asynchronous batch.
// Thread: the one that holds the lane it runs on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ipc/layout.h"
#include "libclient/last_error.h"
#include "libclient/namespace_record.h"
#include "libclient/page_list.h"
#include "simm/batch.h"

namespace simm::detail {

struct BatchRun;

// A call without a timeout of its own ends at the latest after so many times its patience.
inline constexpr std::uint64_t kPatiencesMax = 10;

// Runs whose last completion was read: how an asynchronous batch hears of its end.
struct FinishedRuns {
  BatchRun* first = nullptr;
};

// How the pages of a run are submitted. A page that the daemon answers with absent memory is
// submitted again in the next way, when all others have their results.
enum class Attempt : std::uint8_t {
  first,
  made_present,  // after its memory was faulted in whatever is known of it
  staged,        // through the lane's staging memory
};

struct BatchRun {
  PageList pages;
  ipc::Opcode opcode = ipc::Opcode::noop;
  std::uint16_t flags = 0;  // ipc::kFlag*
  ipc::PutMode put_mode = ipc::PutMode::if_absent;
  std::uint32_t ttl_ms = 0;
  std::uint32_t lease_ms = 0;
  NamespaceRecord* name_space = nullptr;  // null: the default one
  ipc::TraceContext trace;                // with kFlagTraced
  std::uint64_t deadline_ns = 0;          // absolute, monotonic: the latest end
  // Above 0: given up before the deadline when nothing of it has moved for so long.
  std::uint64_t patience_ns = 0;
  std::uint64_t first_deadline_ns = 0;  // its end when nothing moves

  std::size_t next = 0;                // pages before it are submitted or have their result
  std::uint32_t submissions_open = 0;  // pushed, completion not read
  std::size_t absent_pages = 0;        // of this attempt, to be submitted once more
  Attempt attempt = Attempt::first;
  const void* ready_gpu = nullptr;  // context of the GPU that a put has waited for last
  bool is_cancelled = false;        // nothing is submitted any more, also not once more
  bool noop_pushed = false;         // a noop has no pages, and one submission
  Status outcome = Status::ok;      // of the call
  ErrorText text;                   // the caller's room for what failed

  FinishedRuns* finished_to = nullptr;  // null: the caller looks itself
  BatchRun* next_finished = nullptr;

  [[nodiscard]] bool all_submitted() const noexcept {
    return opcode == ipc::Opcode::noop ? noop_pushed : next == pages.size();
  }
  [[nodiscard]] bool finished() const noexcept { return all_submitted() && submissions_open == 0; }
  [[nodiscard]] bool moves_bytes() const noexcept {
    return opcode == ipc::Opcode::put || opcode == ipc::Opcode::get;
  }

  // Its daemon knows of no patience.
  void forget_patience() noexcept {
    deadline_ns = first_deadline_ns;
    patience_ns = 0;
  }
  // When something that is asked of a daemon now is over, unless the daemon tells of progress.
  [[nodiscard]] std::uint64_t end_ns(std::uint64_t now_ns) const noexcept {
    if (patience_ns == 0 || now_ns >= deadline_ns) return deadline_ns;
    return now_ns + std::min(patience_ns, deadline_ns - now_ns);
  }

  // Whether the page is to be submitted in this attempt.
  [[nodiscard]] bool is_due(std::size_t index) const noexcept {
    return attempt == Attempt::first || pages.is_absent(index);
  }
  void keep_absent(std::size_t index) noexcept {
    pages.set_absent(index);
    ++absent_pages;
  }
  // Once everything is submitted and completed: begins the next attempt if there are pages for it.
  void end_pass() noexcept;
  // Its result when no attempt is left, or possible.
  static Status refuse_absent(std::size_t index) noexcept;

  // After the last completion of an attempt: when it was the last one, or the next one began.
  void report_if_finished() noexcept {
    const bool again = attempt != Attempt::first && next == 0 && submissions_open == 0;
    if (finished_to == nullptr || !(finished() || again)) return;
    next_finished = finished_to->first;
    finished_to->first = this;
    finished_to = nullptr;
  }

  // Nothing more is submitted; pages that were not have this result.
  void stop(Status reason) noexcept;
};

}  // namespace simm::detail
