// ClientLane: the client's end of one lane. Writes descriptors, keys and submissions, reads
// completions and results.
//
// The client trusts the daemon, but a wrong cursor must still be an error and not undefined
// behaviour. So cursors are private here too. A completion_tail that can not be true breaks the
// lane for good: the session is abandoned and attached anew.
//
// Protocol duties kept here: at most kCompletionSlots submissions whose completion was not read,
// and completion_head published before the next push. That also means that the submission ring can
// never be full, so submission_head need not be read.
//
// Thread: one at a time, the thread that borrowed the lane; interrupt() from any.
// Memory: the session's mapping outlives it.
#pragma once

#include "ipc/cursor.h"
#include "ipc/daemon_lane.h"
#include "ipc/lane_memory.h"
#include "ipc/prefetch.h"
#include "ipc/range.h"
#include "ipc/untrusted.h"
#include "simm/status.h"

namespace simm::ipc {

template <typename Access>
class BasicClientLane {
public:
  explicit BasicClientLane(LaneMemory memory) noexcept
      : memory_(memory),
        submission_tail_(&memory.control()->submission_tail.word),
        completion_tail_(&memory.control()->completion_tail.word),
        completion_head_(&memory.control()->completion_head.word),
        client_waiting_(&memory.control()->client_waiting.word) {}

  // Descriptor `index`, which no unfinished submission uses. invalid_argument: outside the lane.
  [[nodiscard]] Status write_page(std::uint32_t index, const PageDescriptor& page) noexcept {
    if (!range_within(index, 1, kPageSlots)) return Status::invalid_argument;
    basic_copy_out<Access>(memory_.page(index), &page, sizeof page);
    return Status::ok;
  }

  // Key bytes at `offset`, which no unfinished submission uses. invalid_argument: outside the lane.
  [[nodiscard]] Status write_key(std::uint32_t offset, const void* key,
                                 std::uint32_t bytes) noexcept {
    if (!range_within(offset, bytes, kKeyArenaBytes)) return Status::invalid_argument;
    basic_copy_out<Access>(memory_.keys(offset), key, bytes);
    return Status::ok;
  }

  // Begin to fetch what write_page(), write_key() and read_result() will touch. Any values are
  // allowed.
  void fetch_page(std::uint32_t index) const noexcept {
    if (index < kPageSlots) fetch_to_write(memory_.page(index));
  }
  void fetch_key(std::uint32_t offset) const noexcept {
    if (offset < kKeyArenaBytes) fetch_to_write(memory_.keys(offset));
  }
  void fetch_result(std::uint32_t index) const noexcept {
    if (index < kPageSlots) fetch_to_read(memory_.result(index));
  }

  // The result of descriptor `index`, once the completion of its submission was read.
  [[nodiscard]] Status read_result(std::uint32_t index, PageResult& out) const noexcept {
    if (!range_within(index, 1, kPageSlots)) return Status::invalid_argument;
    basic_copy_in<Access>(&out, memory_.result(index), sizeof out);
    return Status::ok;
  }

  // The trace context of the submission that is pushed next, which has kFlagTraced.
  void write_trace(const TraceContext& trace) noexcept {
    basic_copy_out<Access>(memory_.trace(pushed_), &trace, sizeof trace);
  }

  // Publishes a submission; the caller then rings the daemon if that one sleeps (ClientSession).
  // out_of_memory: kCompletionSlots are unfinished. invalid_state: the lane is broken.
  [[nodiscard]] Status push(const Submission& submission) noexcept {
    if (broken_) return Status::invalid_state;
    if (unfinished() >= kCompletionSlots) return Status::out_of_memory;
    basic_copy_out<Access>(memory_.submission(pushed_), &submission, sizeof submission);
    pushed_ = cursor_next(pushed_);
    submission_tail_.store_seq_cst(pushed_);
    return Status::ok;
  }

  // Takes the next completion and gives its slot back.
  [[nodiscard]] Poll poll_completion(Completion& out) noexcept {
    if (broken_) return Poll::broken;
    const std::uint32_t ready = cursor_distance(completion_tail_.load_acquire(), read_);
    if (ready == 0) return Poll::empty;
    if (ready > unfinished()) {
      broken_ = true;
      return Poll::broken;
    }
    basic_copy_in<Access>(&out, memory_.completion(read_), sizeof out);
    read_ = cursor_next(read_);
    completion_head_.store_release(read_);
    return Poll::taken;
  }

  // True when poll_completion() would not answer `empty`. Cheap: for spinning.
  [[nodiscard]] bool has_completion() const noexcept {
    return broken_ || completion_tail_.load_acquire() != read_;
  }

  // Announces a sleep and re-checks. True: the caller may sleep now, by sleep_on_futex() or by
  // polling the bell socket, as announced. False: there is something to poll, do not sleep.
  [[nodiscard]] bool announce_sleep(ClientWait how) noexcept {
    client_waiting_.store_seq_cst(static_cast<std::uint32_t>(how));
    if (completion_tail_.load_seq_cst() == read_ && !broken_) return true;
    cancel_sleep();
    return false;
  }
  void cancel_sleep() noexcept {
    client_waiting_.store_relaxed(static_cast<std::uint32_t>(ClientWait::none));
  }

  // Sleeps until the daemon has taken the announcement back, or the deadline (absolute, monotonic).
  // May return early. False when the deadline has passed.
  bool sleep_on_futex(std::uint64_t deadline_ns) noexcept {
    return client_waiting_.wait(static_cast<std::uint32_t>(ClientWait::futex), deadline_ns);
  }

  // Ends a futex sleep of the thread that uses the lane. Thread: any.
  void interrupt() noexcept {
    client_waiting_.exchange_seq_cst(static_cast<std::uint32_t>(ClientWait::none));
    client_waiting_.wake();
  }

  // Submissions whose completion was not read yet.
  [[nodiscard]] std::uint32_t unfinished() const noexcept {
    return cursor_distance(pushed_, read_);
  }
  [[nodiscard]] bool broken() const noexcept { return broken_; }

private:
  LaneMemory memory_;
  BasicUntrustedWord<Access> submission_tail_;
  BasicUntrustedWord<Access> completion_tail_;
  BasicUntrustedWord<Access> completion_head_;
  BasicUntrustedWord<Access> client_waiting_;
  std::uint32_t pushed_ = 0;
  std::uint32_t read_ = 0;
  bool broken_ = false;
};

extern template class BasicClientLane<DirectAccess>;
using ClientLane = BasicClientLane<DirectAccess>;

}  // namespace simm::ipc
