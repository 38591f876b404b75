// DaemonLane: the daemon's end of one lane. Takes submissions, copies descriptors and keys out of
// shared memory, writes results and completions, and decides whether the client must be woken.
//
// It believes nothing that it reads. Cursors, counts and capacities live in private members; the
// client's published cursors are claims, checked against them. A claim that can not be true breaks
// the lane for good (reason() says why); the session is then poisoned by its owner. Whatever the
// client writes, every call is bounded and touches only this lane's memory.
//
// A client may have at most kCompletionSlots submissions whose completion it has not read, and
// publishes completion_head before it pushes again. So a free completion slot exists for every
// submission that is taken, and a client that never reads its completions is a broken one.
// Source of the cursor check: the virtio queue of rust-vmm and Firecracker do the same.
//
// Thread: the data agent that owns the session, alone. Memory: the session's mapping outlives it.
#pragma once

#include <bit>

#include "ipc/cursor.h"
#include "ipc/lane_memory.h"
#include "ipc/prefetch.h"
#include "ipc/range.h"
#include "ipc/untrusted.h"
#include "simm/check.h"
#include "simm/status.h"

namespace simm::ipc {

enum class Poll : std::uint8_t {
  empty,   // nothing new
  taken,   // the entry was copied into the out parameter
  broken,  // the peer's cursor can not be true; the lane is unusable from now on
};

// What the caller of publish_completion() still has to do to wake the client.
enum class Wake : std::uint8_t {
  none,  // the client polls
  done,  // it slept on its futex and was woken
  bell,  // send one message on the session's bell socket
};

template <typename Access>
class BasicDaemonLane {
public:
  explicit BasicDaemonLane(LaneMemory memory) noexcept
      : memory_(memory),
        submission_tail_(&memory.control()->submission_tail.word),
        submission_head_(&memory.control()->submission_head.word),
        completion_tail_(&memory.control()->completion_tail.word),
        completion_head_(&memory.control()->completion_head.word),
        client_waiting_(&memory.control()->client_waiting.word) {}

  // Takes the next submission: one copy, unvalidated. Publishes submission_head.
  [[nodiscard]] Poll poll_submission(Submission& out) noexcept {
    if (reason_ != PoisonReason::none) return Poll::broken;
    const std::uint32_t pending = cursor_distance(submission_tail_.load_acquire(), taken_);
    if (pending == 0) return Poll::empty;
    if (pending > kSubmissionSlots) return fail(PoisonReason::ring_cursor);
    if (!has_free_completion()) return fail(PoisonReason::completion_overflow);
    fetch_expected();
    basic_copy_in<Access>(&out, memory_.submission(taken_), sizeof out);
    taken_ = cursor_next(taken_);
    submission_head_.store_release(taken_);
    return Poll::taken;
  }

  // A private copy of the trace context of the submission that was taken last, unvalidated: any
  // value is allowed.
  [[nodiscard]] TraceContext copy_trace() const noexcept {
    TraceContext trace;
    basic_copy_in<Access>(&trace, memory_.trace(taken_ - 1), sizeof trace);
    return trace;
  }

  // The re-check after the daemon announced its sleep: true when there is something to poll. A
  // sequentially consistent load, the daemon's half of the wake-up handshake.
  [[nodiscard]] bool has_submissions() const noexcept {
    return reason_ == PoisonReason::none && submission_tail_.load_seq_cst() != taken_;
  }

  // Copies page descriptors [first, first + count) of the lane, unvalidated, into private memory.
  [[nodiscard]] Status copy_pages(std::uint32_t first, std::uint32_t count,
                                  PageDescriptor* out) const noexcept {
    if (!range_within(first, count, kPageSlots)) return Status::invalid_argument;
    if (count == 0) return Status::ok;
    basic_copy_in<Access>(out, memory_.page(first), count * sizeof *out);
    return Status::ok;
  }

  // Begins to fetch what copy_pages() and copy_keys() will read. The lines come from the other
  // CPU's cache, and a batch waits for one such trip instead of for one per line. Any values are
  // allowed.
  void fetch_page(std::uint32_t index) const noexcept {
    if (index < kPageSlots) fetch_to_read(memory_.page(index));
  }
  void fetch_result(std::uint32_t index) const noexcept {
    if (index < kPageSlots) fetch_to_write(memory_.result(index));
  }
  void fetch_key(std::uint32_t offset) const noexcept {
    if (offset < kKeyArenaBytes) fetch_to_read(memory_.keys(offset));
  }

  // Copies `bytes` of the lane's key bytes from `offset` into private memory.
  [[nodiscard]] Status copy_keys(std::uint32_t offset, std::uint32_t bytes,
                                 std::byte* out) const noexcept {
    if (!range_within(offset, bytes, kKeyArenaBytes)) return Status::invalid_argument;
    basic_copy_in<Access>(out, memory_.keys(offset), bytes);
    return Status::ok;
  }

  // Writes the result of a page. `page_index` was inside the range of a validated submission.
  void write_result(std::uint32_t page_index, const PageResult& result) noexcept {
    SIMM_CHECK(page_index < kPageSlots);
    const std::uint64_t words[] = {
        word_of(static_cast<std::uint32_t>(result.status), result.detail), result.bytes};
    static_assert(sizeof words == sizeof result);
    basic_copy_words_out<Access>(memory_.result(page_index), words);
  }

  // Publishes the completion of one taken submission, after its results. Everything the caller
  // wrote before is visible to a client that sees it. Wakes a client that announced a futex sleep;
  // at most one wake per announced sleep.
  [[nodiscard]] Wake publish_completion(const Completion& completion) noexcept {
    SIMM_CHECK(outstanding() > 0);
    const std::uint64_t words[] = {
        completion.token,
        word_of(static_cast<std::uint32_t>(completion.status), completion.pages_ok),
        completion.bytes_moved, completion.reserved};
    static_assert(sizeof words == sizeof completion);
    basic_copy_words_out<Access>(memory_.completion(published_), words);
    published_ = cursor_next(published_);
    completion_tail_.store_seq_cst(published_);
    return wake_client();
  }

  // Wakes the client if it announced a sleep, for instance because the session's state changed.
  [[nodiscard]] Wake wake_client() noexcept {
    if (client_waiting_.load_seq_cst() == static_cast<std::uint32_t>(ClientWait::none)) {
      return Wake::none;
    }
    const std::uint32_t how =
        client_waiting_.exchange_seq_cst(static_cast<std::uint32_t>(ClientWait::none));
    if (how == static_cast<std::uint32_t>(ClientWait::futex)) {
      client_waiting_.wake();
      return Wake::done;
    }
    return how == static_cast<std::uint32_t>(ClientWait::bell) ? Wake::bell : Wake::none;
  }

  // Submissions taken and not yet completed: a private count.
  [[nodiscard]] std::uint32_t outstanding() const noexcept {
    return cursor_distance(taken_, published_);
  }

  [[nodiscard]] PoisonReason reason() const noexcept { return reason_; }

private:
  static_assert(std::endian::native == std::endian::little);
  static constexpr std::uint64_t word_of(std::uint32_t first, std::uint32_t second) noexcept {
    return std::uint64_t{second} << 32 | first;
  }

  // A client with one call at a time starts at the same places each time. So its first descriptor
  // and key come from the other CPU's cache while the submission does, and not one after the other.
  void fetch_expected() const noexcept {
    fetch_to_read(memory_.page(0));
    fetch_to_read(memory_.keys(0));
    fetch_to_read(memory_.keys(64));
  }

  // True when one more completion has a slot that the client has read. Looks at the client's claim
  // only when the last one seen is not enough.
  [[nodiscard]] bool has_free_completion() noexcept {
    if (cursor_distance(taken_, read_) < kCompletionSlots) return true;
    const std::uint32_t claim = completion_head_.load_acquire();
    // It may only have moved forward, and not past what was published.
    if (cursor_distance(claim, read_) > cursor_distance(published_, read_)) return false;
    read_ = claim;
    return cursor_distance(taken_, read_) < kCompletionSlots;
  }

  Poll fail(PoisonReason reason) noexcept {
    reason_ = reason;
    return Poll::broken;
  }

  LaneMemory memory_;
  BasicUntrustedWord<Access> submission_tail_;
  BasicUntrustedWord<Access> submission_head_;
  BasicUntrustedWord<Access> completion_tail_;
  BasicUntrustedWord<Access> completion_head_;
  BasicUntrustedWord<Access> client_waiting_;
  std::uint32_t taken_ = 0;      // submissions; private truth behind submission_head
  std::uint32_t published_ = 0;  // completions; private truth behind completion_tail
  std::uint32_t read_ = 0;       // last believed completion_head, never past published_
  PoisonReason reason_ = PoisonReason::none;
};

extern template class BasicDaemonLane<DirectAccess>;
using DaemonLane = BasicDaemonLane<DirectAccess>;

// What the client reads are these bytes and nothing around them: no padding that could leak.
static_assert(std::has_unique_object_representations_v<Completion>);
static_assert(std::has_unique_object_representations_v<PageResult>);

}  // namespace simm::ipc
