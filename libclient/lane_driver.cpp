#include "libclient/lane_driver.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <new>
#include <utility>

#include "ipc/range.h"
#include "libclient/gpu_memory.h"
#include "libclient/last_error.h"
#include "libclient/memory_map.h"

namespace simm::detail {
namespace {

// Pages of a batch whose lines are on their way from the daemon's cache while one is written or
// read.
constexpr std::uint32_t kFetchAhead = 12;

// A code from shared memory. What nearly each page has is told without a call.
Status known_status(std::int32_t value) noexcept {
  return value == 0 || is_known_status(value) ? static_cast<Status>(value) : Status::io_error;
}

// What ran into the deadline of a call before its rest was submitted.
Status late(const Lane& lane, const BatchRun& run) noexcept {
  if (lane.staging_request) {
    return fail(Status::timeout,
                "the daemon has not mapped staging memory in time: is it stopped? Or raise "
                "timeout_ms");
  }
  return fail(Status::timeout,
              "%zu of %zu pages were submitted by the deadline: raise timeout_ms, or give fewer",
              run.next, run.pages.size());
}

// Ends the use of a submission's regions. The first page of a run in one region holds it for all of
// the run, so it ends with the next run.
class RunEnds {
public:
  ~RunEnds() { end(); }
  void next(const PageSlot& slot) noexcept {
    if (slot.held == nullptr) return;
    end();
    held_ = slot.held;
  }

private:
  void end() noexcept {
    if (held_ != nullptr) held_->end_use();
  }

  RegionRecord* held_ = nullptr;
};

}  // namespace

// A submission while it is written. Nothing of it is visible to the daemon before publish().
struct LaneDriver::Draft {
  std::uint32_t page_first = 0;
  std::uint32_t count = 0;
  std::uint64_t staged_bytes = 0;
  bool has_waited = false;       // pages were faulted in
  RegionRecord* held = nullptr;  // by the slots of this draft, up to the last page
  std::uint64_t held_reach = 0;  // RegionRecord::reach() of it
  // The page at hand.
  Status refusal = Status::ok;
  ipc::PageDescriptor descriptor{};
  PageSlot slot;
  std::uint64_t reach = 0;
};

// Of the submission that is pushed next. A daemon that exports no traces, or knows of none, is not
// told.
void LaneDriver::trace(Lane& lane, BatchRun& run) noexcept {
  if (lane.session->words().takes_traces()) {
    lane.ring->write_trace(run.trace);
  } else {
    run.flags &= static_cast<std::uint16_t>(~ipc::kFlagTraced);
  }
}

LaneDriver::Push LaneDriver::push_next(Lane& lane, BatchRun& run) noexcept {
  if (run.all_submitted()) return Push::nothing_left;
  if (run.patience_ns != 0 && lane.progress_seen == 0) run.forget_patience();
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  if (now_ns >= run.deadline_ns) {
    run.stop(late(lane, run));
    return Push::nothing_left;
  }
  if (lane.full()) return Push::no_room;
  if ((run.flags & ipc::kFlagTraced) != 0) trace(lane, run);
  if (run.opcode == ipc::Opcode::noop) return push_noop(lane, run, now_ns);

  // The daemon answers whole submissions, so a page whose end is told is one of its own.
  const std::uint64_t wanted = std::min<std::uint64_t>(
      run.pages.size() - run.next, run.pages.tells_ends() ? 1 : ipc::kPagesPerSubmissionMax);
  const RangeRing::Room room = lane.pages.room(wanted);
  const std::uint64_t most = std::min(room.length, wanted);
  Draft draft;
  draft.page_first = static_cast<std::uint32_t>(room.offset);
  while (draft.count < most && run.next < run.pages.size()) {
    if (!run.is_due(run.next)) {
      ++run.next;
      continue;
    }
    const Added added = add_page(lane, run, draft);
    if (added == Added::no_room) break;
    ++run.next;
  }
  if (draft.count == 0) {
    if (!run.all_submitted()) return Push::no_room;
    run.end_pass();
    return Push::nothing_left;
  }
  lane.pages.take(room.offset, draft.count);
  const std::uint64_t sent_ns =
      draft.has_waited ? std::min(ipc::monotonic_now_ns(), run.deadline_ns - 1) : now_ns;
  return publish(lane, run, draft, sent_ns) ? Push::pushed : Push::no_room;
}

LaneDriver::Push LaneDriver::push_noop(Lane& lane, BatchRun& run, std::uint64_t now_ns) noexcept {
  run.noop_pushed = true;
  return publish(lane, run, Draft{}, now_ns) ? Push::pushed : Push::no_room;
}

LaneDriver::Added LaneDriver::add_page(Lane& lane, BatchRun& run, Draft& draft) noexcept {
  const Item page = run.pages.page(run.next);
  const Status valid = check_page(lane, run, page);
  if (valid != Status::ok) {
    run.pages.set(run.next, valid, 0);
    return Added::refused;
  }
  // Keys start on words, which makes copying them out cheaper.
  const std::uint64_t keys_mark = lane.keys.mark();
  const std::uint64_t key_offset = lane.keys.allocate((page.key.size() + 7) / 8 * 8);
  if (key_offset == RangeRing::kNone) return Added::no_room;
  draft.descriptor = ipc::PageDescriptor{};
  draft.slot = PageSlot{};
  draft.slot.item = run.next;
  if (run.moves_bytes()) {
    const Added placed = place(lane, run, draft, page);
    if (placed != Added::added) {
      lane.keys.rollback(keys_mark);
      return placed;
    }
  }
  draft.descriptor.key_offset = static_cast<std::uint32_t>(key_offset);
  draft.descriptor.key_bytes = static_cast<std::uint32_t>(page.key.size());
  draft.descriptor.depth = run.opcode == ipc::Opcode::put ? page.depth : 0;
  const std::uint32_t index = draft.page_first + draft.count;
  if (run.next + kFetchAhead < run.pages.size()) {
    lane.ring->fetch_page(index + kFetchAhead);
    lane.ring->fetch_key(draft.descriptor.key_offset + kFetchAhead * draft.descriptor.key_bytes);
  }
  lane.slots[index] = draft.slot;
  if (draft.slot.held != nullptr) {
    draft.held = draft.slot.held;
    draft.held_reach = draft.reach;
  }
  // Both are inside the lane: the rings gave out the places.
  (void)lane.ring->write_key(draft.descriptor.key_offset, page.key.data(),
                             draft.descriptor.key_bytes);
  (void)lane.ring->write_page(index, draft.descriptor);
  ++draft.count;
  return Added::added;
}

Status LaneDriver::check_page(const Lane& lane, const BatchRun& run,
                              const Item& page) const noexcept {
  const ipc::SessionLimits& limits = lane.session->limits();
  const std::uint32_t key_max = std::min(limits.key_bytes_max, ipc::kKeyBytesMax);
  if (page.key.data() == nullptr && !page.key.empty()) [[unlikely]] {
    return fail(Status::invalid_argument,
                "items[%zu].key: NULL, of %zu bytes: give the address of the key", run.next,
                page.key.size());
  }
  if (page.key.empty() || page.key.size() > key_max) [[unlikely]] {
    return fail(Status::invalid_argument,
                "items[%zu].key: %zu bytes; a key has 1 to %u bytes: use a digest of a longer one",
                run.next, page.key.size(), key_max);
  }
  if (!run.moves_bytes()) return Status::ok;
  const std::uint64_t length = page.view.length();
  if (length == 0) [[unlikely]] {
    return fail(Status::invalid_argument, "items[%zu].view: 0 bytes; a page has at least 1",
                run.next);
  }
  const std::uint64_t value_max = std::min(limits.value_bytes_max, ipc::kValueBytesMax);
  if (run.opcode == ipc::Opcode::put && length > value_max) [[unlikely]] {
    return fail(Status::invalid_argument,
                "items[%zu].view: %" PRIu64 " bytes; the daemon's max_value_bytes is %" PRIu64
                ": split the value or raise the limit",
                run.next, length, value_max);
  }
  if (run.opcode == ipc::Opcode::get && page.object_offset > ipc::kValueBytesMax) [[unlikely]] {
    return fail(Status::invalid_argument,
                "items[%zu].object_offset: %" PRIu64 "; no value has more than %" PRIu64 " bytes",
                run.next, page.object_offset, ipc::kValueBytesMax);
  }
  return Status::ok;
}

// Holds the region of an address: that of the last call, else whichever the table knows.
RegionRecord* LaneDriver::hold_address(Lane& lane, Draft& draft, std::uint64_t place,
                                       std::uint64_t length) noexcept {
  for (const bool guess : {true, false}) {
    RegionRecord* const region = guess ? lane.last_region : regions_.find(place, length);
    if (region == nullptr || !region->covers(place, length)) continue;
    const bool hold = region != draft.held;
    if (hold && !region->begin_use()) continue;
    // From here on the record can not change: what was a guess is looked at again.
    if (region->covers(place, length)) {
      draft.slot.held = hold ? region : nullptr;
      return region;
    }
    if (hold) region->end_use();
  }
  return nullptr;
}

// Holds the region of the page and checks the range.
Status LaneDriver::resolve(Lane& lane, Draft& draft, const Item& page) noexcept {
  const std::uint64_t length = page.view.length();
  const std::uint64_t place = page.view.offset();
  RegionRecord* region = page.view.record();
  std::uint64_t offset = place;
  if (region == nullptr) {
    region = hold_address(lane, draft, place, length);
    if (region == nullptr) {
      return fail(Status::invalid_argument,
                  "items[%zu].view: [0x%" PRIx64 ", +%" PRIu64
                  ") is not inside a registered region: register the memory first",
                  draft.slot.item, place, length);
    }
    lane.last_region = region;
    offset = place - reinterpret_cast<std::uintptr_t>(region->address());
  } else {
    if (&region->core() != &regions_.core()) {
      return fail(Status::invalid_argument,
                  "items[%zu].view: its region belongs to another daemon's socket",
                  draft.slot.item);
    }
    const bool hold = region != draft.held;
    const bool open = !hold || region->begin_use();
    draft.slot.held = hold && open ? region : nullptr;
    if (!open || region->generation() != page.view.generation()) {
      return fail(Status::invalid_state, "items[%zu].view: its region was deregistered",
                  draft.slot.item);
    }
    if (!ipc::range_within(offset, length, region->length())) {
      return fail(Status::invalid_argument,
                  "items[%zu].view: [%" PRIu64 ", +%" PRIu64
                  ") is not inside its region of %" PRIu64 " bytes",
                  draft.slot.item, offset, length, region->length());
    }
  }
  draft.slot.region = region;
  draft.slot.offset = offset;
  draft.slot.length = length;
  return Status::ok;
}

// A file that was cut short is asked about once for each run of pages in it: the daemon would end
// the session of the whole process.
Status LaneDriver::check_reach(Draft& draft) noexcept {
  const PageSlot& slot = draft.slot;
  draft.reach = slot.held != nullptr ? slot.held->reach() : draft.held_reach;
  if (slot.offset + slot.length <= draft.reach) [[likely]]
    return Status::ok;
  return fail(Status::invalid_argument,
              "items[%zu].view: [%" PRIu64 ", +%" PRIu64
              ") of a region whose file was cut to %" PRIu64 " of its %" PRIu64
              " bytes: make the file longer, or register what is left",
              slot.item, slot.offset, slot.length, draft.reach, slot.region->length());
}

// What was read-only when it was registered may have changed since; the rest is not asked about.
Status LaneDriver::check_writable(const PageSlot& slot) noexcept {
  RegionRecord& region = *slot.region;
  if (!region.memory().is_read_only) [[likely]]
    return Status::ok;
  // SAFETY: resolve() checked the range.
  const bool is_writable = region.present().may_copy(slot.offset, slot.length, true) ||
                           !any_read_only(region.address() + slot.offset, slot.length);
  if (is_writable) return Status::ok;
  return fail(Status::invalid_argument,
              "items[%zu].view: its memory is read-only: give a get memory that may be written",
              slot.item);
}

// Once for the pages of a call that are on the same GPU.
Status LaneDriver::await_gpu(BatchRun& run, const RegionRecord& region) noexcept {
  const RegionMemory& memory = region.memory();
  if (memory.wish != RegionKind::gpu || run.ready_gpu == memory.gpu_context) [[likely]]
    return Status::ok;
  const Status status = wait_for_gpu(memory.gpu_context);
  if (status == Status::ok) run.ready_gpu = memory.gpu_context;
  return status;
}

LaneDriver::Added LaneDriver::place(Lane& lane, BatchRun& run, Draft& draft,
                                    const Item& page) noexcept {
  Status status = resolve(lane, draft, page);
  Added added = Added::refused;
  if (status == Status::ok) status = check_reach(draft);
  if (status == Status::ok && run.opcode == ipc::Opcode::get) {
    status = check_writable(draft.slot);
  }
  if (status == Status::ok && run.opcode == ipc::Opcode::put) {
    status = await_gpu(run, *draft.slot.region);
  }
  if (status == Status::ok) {
    RegionRecord& region = *draft.slot.region;
    const ipc::RegionHandle handle = region.handle(lane.generation());
    // A view may be longer than any object; the daemon's word for its length has a limit.
    draft.descriptor.length = std::min(draft.slot.length, ipc::kValueBytesMax);
    draft.descriptor.object_offset = run.opcode == ipc::Opcode::get ? page.object_offset : 0;
    const bool is_mapped = handle != ipc::kNoRegion;
    const bool is_copied = is_mapped ? run.attempt == Attempt::staged ||
                                           region.taken_back(draft.slot.offset, draft.slot.length)
                                     : region.kind() == RegionKind::staged;
    if (is_copied && region.memory().wish != RegionKind::gpu) [[unlikely]] {
      added = place_staged(lane, run, draft);
      status = draft.refusal;
    } else if (!is_mapped) {
      status = Status::unreachable;  // registered with a session that came or went just now
    } else {
      status = presence_.make(run, draft.slot, draft.descriptor.length, draft.has_waited);
      draft.descriptor.region = handle;
      draft.descriptor.offset = draft.slot.offset;
      if (status == Status::ok) added = Added::added;
    }
  }
  if (added != Added::added && draft.slot.held != nullptr) draft.slot.held->end_use();
  if (added == Added::refused) run.pages.set(run.next, status, 0);
  return added;
}

LaneDriver::Added LaneDriver::place_staged(Lane& lane, BatchRun& run, Draft& draft) noexcept {
  const std::uint64_t length = draft.descriptor.length;
  // Memory that the daemon maps comes here when its pages would not come: the copy must not fault.
  if (run.attempt == Attempt::staged &&
      !draft.slot.region->present().may_copy(draft.slot.offset, length,
                                             run.opcode == ipc::Opcode::get)) {
    draft.refusal = BatchRun::refuse_absent(run.next);
    return Added::refused;
  }
  const std::uint64_t wanted = Staging::rounded(length);
  while (lane.staging.capacity() < wanted) {
    if (!lane.staging.empty()) return Added::no_room;
    try {
      const Expected<bool> made = staging_.make(lane, std::max(wanted, staging_bytes_));
      if (!made) {
        draft.refusal = fail(made.status(), "staging memory of %" PRIu64 " bytes: %s", wanted,
                             made.error().context.c_str());
        return Added::refused;
      }
      if (!*made) return Added::no_room;
    } catch (const std::bad_alloc&) {
      draft.refusal = Status::out_of_memory;
      return Added::refused;
    }
  }
  // Submissions of a quarter: while the daemon moves one, the next is copied.
  if (draft.staged_bytes > 0 && draft.staged_bytes + wanted > lane.staging.capacity() / 4) {
    return Added::no_room;
  }
  const std::uint64_t offset = lane.staging.allocate(wanted);
  if (offset == RangeRing::kNone) return Added::no_room;
  draft.staged_bytes += wanted;
  draft.slot.staging = lane.staging.at(offset);
  draft.descriptor.region = lane.staging.handle();
  draft.descriptor.offset = offset;
  if (run.opcode == ipc::Opcode::put) {
    std::memcpy(draft.slot.staging, draft.slot.region->address() + draft.slot.offset, length);
    LaneCounters::add(lane.counters.bytes_staged, length);
  }
  return Added::added;
}

bool LaneDriver::publish(Lane& lane, BatchRun& run, const Draft& draft,
                         std::uint64_t now_ns) noexcept {
  ipc::Submission submission{};
  submission.token = lane.tail;
  submission.timeout_ns = run.deadline_ns - now_ns;
  submission.patience_ns = run.patience_ns;
  submission.page_first = draft.page_first;
  submission.page_count = draft.count;
  submission.opcode = static_cast<std::uint8_t>(run.opcode);
  submission.flags = run.flags;
  if (run.opcode != ipc::Opcode::get) submission.flags &= ipc::kFlagTraced;
  if (run.opcode == ipc::Opcode::put) {
    submission.put_mode = static_cast<std::uint8_t>(run.put_mode);
    submission.ttl_ms = run.ttl_ms;
  }
  if (run.opcode == ipc::Opcode::get || run.opcode == ipc::Opcode::exists) {
    submission.lease_ms = run.lease_ms;
  }
  if (run.name_space != nullptr) {
    // Whoever started the run made sure that the session knows the namespace.
    (void)run.name_space->id(lane.generation(), submission.name_space);
  }
  InFlight& entry = lane.entry(lane.tail);
  entry.run = &run;
  entry.give_up_ns = run.end_ns(now_ns) + kFenceGraceNs + kStoppedAfterNs;
  entry.page_first = draft.page_first;
  entry.page_count = draft.count;
  entry.pages_mark = lane.pages.mark();
  entry.keys_mark = lane.keys.mark();
  entry.staging_mark = draft.staged_bytes > 0 ? lane.staging.mark() : RangeRing::kNone;
  ++lane.tail;
  ++run.submissions_open;
  LaneCounters::add(lane.counters.submissions, 1);
  LaneCounters::add(lane.counters.pages, draft.count);
  // full() was false, so this fails only on a broken lane, which collect() then reports.
  return lane.ring->push(submission) == Status::ok;
}

bool LaneDriver::collect(Lane& lane, std::uint64_t copy_bytes_max) noexcept {
  const std::uint64_t copied_before = lane.counters.copied_bytes();
  while (lane.counters.copied_bytes() - copied_before < copy_bytes_max) {
    ipc::Completion completion{};
    const ipc::Poll polled = lane.ring->poll_completion(completion);
    if (polled == ipc::Poll::empty) break;
    if (polled == ipc::Poll::broken) return false;
    const auto sequence = static_cast<std::uint32_t>(completion.token);
    const bool known =
        completion.token <= UINT32_MAX &&
        ipc::cursor_distance(sequence, lane.head) < ipc::cursor_distance(lane.tail, lane.head) &&
        lane.entry(sequence).run != nullptr;
    if (!known) return false;
    const Status status = known_status(completion.status);
    LaneCounters::add(lane.counters.bytes_moved, completion.bytes_moved);
    finish(lane, lane.entry(sequence), status);
    lane.silence_ends_ns = 0;
  }
  lane.reclaim();
  return true;
}

void LaneDriver::finish(Lane& lane, InFlight& entry, Status status) noexcept {
  BatchRun& run = *entry.run;
  entry.run = nullptr;
  --run.submissions_open;
  if (&run == &lane.nobody) return;
  {
    RunEnds ends;
    for (std::uint32_t i = 0; i < entry.page_count; ++i) {
      if (i + kFetchAhead < entry.page_count) {
        lane.ring->fetch_result(entry.page_first + i + kFetchAhead);
      }
      ends.next(lane.slots[entry.page_first + i]);
      finish_page(lane, run, entry.page_first + i, status);
    }
  }
  if (status != Status::ok) run.outcome = status;
  run.end_pass();
  run.report_if_finished();
}

void LaneDriver::release(Lane& lane, const InFlight& entry) noexcept {
  RunEnds ends;
  for (std::uint32_t i = 0; i < entry.page_count; ++i) ends.next(lane.slots[entry.page_first + i]);
}

void LaneDriver::finish_page(Lane& lane, BatchRun& run, std::uint32_t index,
                             Status status) noexcept {
  const PageSlot& slot = lane.slots[index];
  ipc::PageResult result{};
  // Of a submission that was not carried out, or has no completion, no result of a page counts.
  if (status == Status::ok) {
    (void)lane.ring->read_result(index, result);  // the index is one that the lane gave out
    status = known_status(result.status);
  }
  const bool is_absent = status == Status::out_of_memory && result.detail == ipc::kDetailAbsent;
  if (is_absent && slot.staging == nullptr && slot.region->wants_presence()) {
    return run.keep_absent(slot.item);
  }
  std::uint64_t bytes = status == Status::ok ? result.bytes : 0;
  if (run.opcode == ipc::Opcode::get && status == Status::ok) {
    if (bytes > slot.length) {
      status = Status::transfer_failed;  // a daemon that claims to have left the view
      bytes = 0;
    } else if (slot.staging != nullptr) {
      std::memcpy(slot.region->address() + slot.offset, slot.staging, bytes);
      LaneCounters::add(lane.counters.bytes_staged, bytes);
    } else if (slot.region->taken_back(slot.offset, slot.length)) {
      status = Status::timeout;  // written where this process no longer looks
      bytes = 0;
    }
  }
  run.pages.set(slot.item, status, bytes);
  if (status != Status::ok && status != Status::not_found) {
    fail_page(run.text, slot.item, status);
  }
  if (status == Status::ok) LaneCounters::add(lane.counters.pages_ok, 1);
  if (status == Status::timeout) LaneCounters::add(lane.counters.timeouts, 1);
  if (status == Status::unreachable) LaneCounters::add(lane.counters.unreachable, 1);
}

}  // namespace simm::detail
