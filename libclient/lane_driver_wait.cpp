// The waiting half of LaneDriver: for completions, for the end of a daemon that gives none, and
// what is left to the daemon without waiting for it.
#include <algorithm>

#include "ipc/futex.h"
#include "libclient/lane_driver.h"
#include "libclient/take_back.h"

namespace simm::detail {
namespace {

// How long a wait goes on before it looks whether the daemon has hung up: nobody wakes a sleeper
// whose daemon has died.
constexpr std::uint64_t kLookIntervalNs = 10'000'000;
constexpr int kHangUpWaitMs = 5;

}  // namespace

std::uint64_t LaneDriver::overdue_ns(Lane& lane, std::uint64_t now_ns) noexcept {
  const std::uint32_t told = lane.session->words().progress();
  // Whichever submission it was about: the daemon runs, and keeps the times of all of them.
  const bool is_news = told != lane.progress_seen;
  lane.progress_seen = told;
  if (is_news && lane.silence_ends_ns != 0) lane.silence_ends_ns = now_ns + kSilenceNs;
  std::uint64_t earliest_ns = ipc::kNoDeadlineNs;
  for (std::uint32_t sequence = lane.head; sequence != lane.tail; ++sequence) {
    InFlight& entry = lane.entry(sequence);
    if (entry.run == nullptr) continue;
    if (is_news) entry.give_up_ns = entry.run->end_ns(now_ns) + kFenceGraceNs + kStoppedAfterNs;
    if (entry.run == &lane.nobody) {
      entry.give_up_ns = std::max(entry.give_up_ns, lane.silence_ends_ns);
    }
    earliest_ns = std::min(earliest_ns, entry.give_up_ns);
  }
  return earliest_ns;
}

Status LaneDriver::wait(Lane& lane, std::uint64_t now_ns, std::uint64_t until_ns) noexcept {
  Session& session = *lane.session;
  ipc::WaitStrategy* strategy = &lane.wait;
  for (;;) {
    const Status waited = strategy->wait(*lane.ring, session.words(), now_ns + kLookIntervalNs);
    if (waited == Status::ok) return Status::ok;
    // The daemon closed, poisoned or lost the session. The hang-up is the fence: until then it may
    // still be finishing what is in flight.
    const bool ending = waited != Status::timeout;
    if (session.hung_up(ending ? kHangUpWaitMs : 0)) {
      if (lane.ring->has_completion()) return Status::ok;
      return session.words().state() == ipc::SessionState::poisoned ? Status::poisoned
                                                                    : Status::unreachable;
    }
    now_ns = ipc::monotonic_now_ns();
    if (now_ns >= overdue_ns(lane, now_ns)) return Status::timeout;
    if (now_ns >= until_ns) return Status::ok;
    // What a long wait does must not teach the strategy about short ones.
    if (lane.wait_mode() != ipc::WaitMode::spin) strategy = &lane.sleeper;
  }
}

bool LaneDriver::take_back_pages(Lane& lane, const InFlight& entry) noexcept {
  bool all = true;
  if (!entry.run->moves_bytes()) return all;
  for (std::uint32_t i = 0; i < entry.page_count; ++i) {
    PageSlot& slot = lane.slots[entry.page_first + i];
    if (slot.staging != nullptr || slot.taken_back) continue;
    // A helper of the daemon reads and writes foreign memory by its address, and that of a GPU by
    // a mapping of its own: no mapping of ours keeps it away.
    const RegionKind kind = slot.region->kind();
    const bool allowed = slot.region->memory().stopped_daemon == StoppedDaemon::take_back &&
                         kind != RegionKind::foreign && kind != RegionKind::gpu;
    if (!allowed || !take_back(*slot.region, slot.offset, slot.length)) {
      all = false;
      continue;
    }
    // Not a second time, should the call have to wait for other pages.
    slot.taken_back = true;
    LaneCounters::add(lane.counters.taken_back, 1);
  }
  return all;
}

bool LaneDriver::take_back_all(Lane& lane) noexcept {
  bool all = true;
  for (std::uint32_t sequence = lane.head; sequence != lane.tail; ++sequence) {
    const InFlight& entry = lane.entry(sequence);
    if (entry.run != nullptr && !take_back_pages(lane, entry)) all = false;
  }
  return all;
}

void LaneDriver::end_overdue(Lane& lane, std::uint64_t now_ns) noexcept {
  if (lane.silence_ends_ns == 0) lane.silence_ends_ns = now_ns + kSilenceNs;
  for (std::uint32_t sequence = lane.head; sequence != lane.tail; ++sequence) {
    InFlight& entry = lane.entry(sequence);
    if (entry.run == nullptr || now_ns < entry.give_up_ns) continue;
    if (entry.run != &lane.nobody) {
      if (!take_back_pages(lane, entry)) {
        entry.give_up_ns = now_ns + kLookIntervalNs;
        continue;
      }
      finish(lane, entry, Status::timeout);
      leave_to_nobody(lane, entry);
    }
    entry.give_up_ns = lane.silence_ends_ns;
  }
}

void LaneDriver::leave_to_nobody(Lane& lane, InFlight& entry) noexcept {
  entry.run = &lane.nobody;
  ++lane.nobody.submissions_open;
}

void LaneDriver::give_up(Lane& lane, Status reason) noexcept {
  for (std::uint32_t sequence = lane.head; sequence != lane.tail; ++sequence) {
    InFlight& entry = lane.entry(sequence);
    if (entry.run != nullptr) finish(lane, entry, reason);
  }
  lane.unbind();
}

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
    leave_to_nobody(lane, entry);
    // The daemon's silence about one that nobody waits for shows at the latest end of any.
    lane.nobody.deadline_ns = std::max(lane.nobody.deadline_ns, run.deadline_ns);
    run.outcome = Status::cancelled;
    --run.submissions_open;
  }
  run.end_pass();
}

}  // namespace simm::detail
