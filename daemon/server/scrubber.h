// Scrubber: reads every object of a store again and again and compares it with its digest, so that
// memory errors are found before somebody needs the object. What does not match is quarantined, is
// a miss from then on, and stands in the error log by tenant, hash of its key and place in the
// arena (the first kToldMax of them; keys appear in no log).
//
// Pace. So many bytes a second, records that it only looks at included. A piece is short enough
// not to be felt by a request that comes in the midst of it; while requests are under way there is
// at most one piece in a millisecond. With nothing else to do it sleeps for kNapNs and catches up.
// A pass begins kPassNs after the one before it began, or when that one is over, if that is later;
// what an earlier life of the process left unverified is read first, in a pass of its own.
//
// Owned by the Server. Thread: its data agent.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/base/clock.h"
#include "daemon/base/counter_group.h"
#include "daemon/base/error_log.h"
#include "daemon/base/hash.h"
#include "daemon/store/store.h"

namespace simm::server {

struct ScrubCounters : base::CounterGroup {
  ScrubCounters() = default;  // counts into unread cells
  // `prefix`: "scrub.0" of the data agent 0.
  ScrubCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "agent") {}

  base::Counter objects = counter(
      "objects",
      {"simm_scrub_objects_total", "Objects that the scrubber compared with their checksum."});
  base::Counter bytes =
      counter("bytes", {"simm_scrub_bytes_total", "Bytes that the scrubber read."});
  base::Counter corrupt =
      counter("corrupt", {"simm_scrub_damaged_total",
                          "Objects that the scrubber found damaged and dropped.", "what=bytes"});
  base::Counter damaged_records =
      counter("damaged_records", {"simm_scrub_damaged_total", "", "what=record"});
  base::Counter passes =
      counter("passes", {"simm_scrub_passes_total", "Passes of the scrubber over all objects."});
  base::Counter pass_ns =
      counter("pass_ns", {"simm_scrub_pass_seconds", "How long the last of those took."});
  base::Counter progress_permille =
      counter("progress_permille",
              {"simm_scrub_progress_permille",
               "How far the pass under way is; 1000: it is over, and the next one not begun."});
};

class Scrubber {
public:
  static constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 10;
  static constexpr base::TimeNs kNapNs = 50 * base::kNsPerMs;
  static constexpr std::uint32_t kToldMax = 16;
  static constexpr base::TimeNs kPassNs = 3600 * base::kNsPerSecond;

  // bytes_per_s 0: it does nothing. `store` and `errors` (may be null) outlive it.
  Scrubber(std::uint64_t bytes_per_s, store::Store& store, ScrubCounters counters,
           base::ErrorLog* errors);

  // At most a piece. `busy`: requests are under way.
  int do_work(base::TimeNs now_ns, bool busy) noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;

private:
  [[nodiscard]] bool in_pass() const noexcept { return next_ != store::kNone; }
  void begin_pass(base::TimeNs now_ns) noexcept;
  void end_pass(base::TimeNs now_ns) noexcept;
  // Each returns the bytes that it read.
  std::uint64_t find_object(base::TimeNs now_ns) noexcept;
  std::uint64_t read_piece(base::TimeNs now_ns) noexcept;
  void tell(const char* what) noexcept;

  const std::uint64_t bytes_per_s_;
  store::Store& store_;
  ScrubCounters counters_;
  base::ErrorLog* const errors_;
  base::PayloadDigest digest_;

  std::uint32_t told_ = 0;
  store::ScrubObject object_;  // the one that is being read
  std::uint64_t read_bytes_ = 0;
  bool reading_ = false;
  bool only_unverified_ = false;
  std::uint32_t next_ = store::kNone;  // record; kNone: there is no pass
  base::TimeNs pass_began_ns_ = 0;
  base::TimeNs pass_due_ns_ = 0;   // when the next one may begin
  base::TimeNs piece_due_ns_ = 0;  // by the pace
  base::TimeNs piece_ns_ = 0;      // when the last one was read
};

}  // namespace simm::server
