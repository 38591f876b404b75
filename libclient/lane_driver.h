// LaneDriver: moves calls through a borrowed lane. It writes submissions, reads completions and
// copies the bytes of staged regions. When the daemon does not answer, it makes the pages of what
// is in flight safe before the call may end.
//
// Thread: the one that borrowed the lane. No allocation and no lock, except while a lane gets its
// staging memory and when an address is looked up in another region than the last one.
#pragma once

#include <cstdint>

#include "libclient/lane.h"
#include "libclient/presence.h"
#include "libclient/region_table.h"
#include "libclient/staging_maker.h"

namespace simm::detail {

// The daemon completes a batch by its deadline plus this (and fences what is still running). Of one
// with patience it tells within its patience that the end is later (SessionHeader::progress)...
inline constexpr std::uint64_t kFenceGraceNs = 100'000'000;
// ... and the call ends without its answer when that has passed by this much: what the daemon's
// turn and ours may take.
inline constexpr std::uint64_t kStoppedAfterNs = 100'000'000;
// A daemon that then gives no answer on the lane for so long is taken for stopped: its session
// ends, for all callers. A shorter pause costs only calls whose own time is over.
inline constexpr std::uint64_t kSilenceNs = 1'000'000'000;

class LaneDriver {
public:
  LaneDriver(RegionTable& regions, StagingMaker& staging) noexcept
      : regions_(regions), staging_(staging), presence_(regions) {}
  void set_staging_bytes(std::uint64_t bytes) noexcept { staging_bytes_ = bytes; }

  [[nodiscard]] Presence& presence() noexcept { return presence_; }
  [[nodiscard]] const Presence& presence() const noexcept { return presence_; }

  enum class Push : std::uint8_t {
    pushed,        // one submission more is in flight; the caller rings the daemon
    nothing_left,  // the rest of the run is submitted or has its results
    no_room,       // not before something in flight has completed, or staging memory is there
  };
  Push push_next(Lane& lane, BatchRun& run) noexcept;

  // Takes every completion that is there, until it has copied so many bytes. False when the lane is
  // broken: the session is of no use.
  [[nodiscard]] bool collect(Lane& lane, std::uint64_t copy_bytes_max = UINT64_MAX) noexcept;

  // When something in flight on the lane is overdue, so that the daemon must be stopped:
  // kNoDeadline where nothing is. Later than before when the daemon has told of progress.
  [[nodiscard]] std::uint64_t overdue_ns(Lane& lane, std::uint64_t now_ns) noexcept;
  // Waits until there is a completion (ok), or says why there will be none. timeout: something is
  // overdue; unreachable or poisoned: the daemon has hung up. Also ok when `until_ns` has passed.
  [[nodiscard]] Status wait(Lane& lane, std::uint64_t now_ns, std::uint64_t until_ns) noexcept;

  // Ends what is overdue with `timeout`, once its pages are safe from a daemon that may go on. The
  // lane and the session live on, and what can not be made safe stays in flight.
  void end_overdue(Lane& lane, std::uint64_t now_ns) noexcept;
  // The daemon has given no answer for so long that the session is of no use.
  [[nodiscard]] static bool is_silent(const Lane& lane, std::uint64_t now_ns) noexcept {
    return lane.silence_ends_ns != 0 && now_ns >= lane.silence_ends_ns;
  }

  // Tries to make the pages of everything in flight on the lane safe from a daemon that is
  // alive. False when some can not be: then nothing of the lane may be given up yet.
  [[nodiscard]] bool take_back_all(Lane& lane) noexcept;
  // Ends what the daemon does for the run on the lane without the daemon's answers, as far as
  // nothing of the caller's memory is within its reach. The rest goes on.
  void abandon_answers(Lane& lane, BatchRun& run) noexcept;
  // Ends everything in flight with that result and unbinds the lane. The daemon has hung up,
  // or take_back_all() said true.
  void give_up(Lane& lane, Status reason) noexcept;

private:
  struct Draft;
  enum class Added : std::uint8_t { added, refused, no_room };

  Push push_noop(Lane& lane, BatchRun& run, std::uint64_t now_ns) noexcept;
  Added add_page(Lane& lane, BatchRun& run, Draft& draft) noexcept;
  static Status check_reach(Draft& draft) noexcept;
  static Status check_writable(const PageSlot& slot) noexcept;
  // What a put reads on a GPU is there: the GPU has done what was queued before.
  static Status await_gpu(BatchRun& run, const RegionRecord& region) noexcept;
  Added place(Lane& lane, BatchRun& run, Draft& draft, const Item& page) noexcept;
  Added place_staged(Lane& lane, BatchRun& run, Draft& draft) noexcept;
  Status check_page(const Lane& lane, const BatchRun& run, const Item& page) const noexcept;
  RegionRecord* hold_address(Lane& lane, Draft& draft, std::uint64_t place,
                             std::uint64_t length) noexcept;
  // What it holds is in draft.slot.held, also when it fails.
  Status resolve(Lane& lane, Draft& draft, const Item& page) noexcept;
  static void trace(Lane& lane, BatchRun& run) noexcept;
  bool publish(Lane& lane, BatchRun& run, const Draft& draft, std::uint64_t now_ns) noexcept;
  void finish(Lane& lane, InFlight& entry, Status status) noexcept;
  void release(Lane& lane, const InFlight& entry) noexcept;
  static bool reaches_memory(const Lane& lane, const InFlight& entry) noexcept;
  static bool take_back_pages(Lane& lane, const InFlight& entry) noexcept;
  // The entry's run has its results. The daemon may still work for what was asked.
  static void leave_to_nobody(Lane& lane, InFlight& entry) noexcept;
  void finish_page(Lane& lane, BatchRun& run, std::uint32_t index, Status status) noexcept;

  RegionTable& regions_;
  StagingMaker& staging_;
  Presence presence_;
  std::uint64_t staging_bytes_ = 32ull << 20;
};

}  // namespace simm::detail
