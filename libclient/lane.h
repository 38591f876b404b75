// Lane: one lane of the session with everything libclient keeps about it. That is which submissions
// are in flight, for which call, and which descriptors, key bytes and staging memory they use.
//
// A lane is borrowed (LanePool) and then belongs to one thread. It is bound to the session that was
// attached when it was last used; a lane of an old session is bound anew when it is idle.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "ipc/client_lane.h"
#include "ipc/wait_strategy.h"
#include "libclient/batch_run.h"
#include "libclient/range_ring.h"
#include "libclient/session.h"
#include "libclient/staging.h"

namespace simm::detail {

// One submission between push and the completion of all older ones.
struct InFlight {
  BatchRun* run = nullptr;  // null: done, waits for older ones only
  std::uint64_t give_up_ns = 0;
  std::uint32_t page_first = 0;
  std::uint32_t page_count = 0;
  std::uint64_t pages_mark = 0;  // what to give back with it: RangeRing::free_to()
  std::uint64_t keys_mark = 0;
  std::uint64_t staging_mark = 0;
};

// What libclient remembers about one page descriptor in use.
struct PageSlot {
  std::size_t item = 0;            // index in the run's list
  RegionRecord* held = nullptr;    // first page of a run in one region: end_use() when done
  RegionRecord* region = nullptr;  // put, get
  std::uint64_t offset = 0;        // of the caller's slice in its region
  std::uint64_t length = 0;
  std::byte* staging = nullptr;  // where its bytes are staged; null: the daemon moves them
  bool taken_back = false;       // from a stopped daemon
};

// Written by the borrower, read by whoever asks for ClientStats.
struct LaneCounters {
  std::atomic<std::uint64_t> submissions{0};
  std::atomic<std::uint64_t> pages{0};
  std::atomic<std::uint64_t> pages_ok{0};
  std::atomic<std::uint64_t> bytes_moved{0};
  std::atomic<std::uint64_t> bytes_staged{0};
  std::atomic<std::uint64_t> timeouts{0};
  std::atomic<std::uint64_t> unreachable{0};
  std::atomic<std::uint64_t> taken_back{0};
  [[nodiscard]] std::uint64_t copied_bytes() const noexcept {
    return bytes_staged.load(std::memory_order_relaxed);
  }
  // One writer at a time, so no read-modify-write instruction is needed.
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
};

class Lane {
public:
  static constexpr std::uint32_t kInFlightMax = ipc::kCompletionSlots;

  Lane(std::uint32_t index, ipc::WaitMode mode) noexcept : index_(index), wait_mode_(mode) {}

  // ---- borrowing, any thread: LanePool ----
  alignas(128) std::atomic<std::uint32_t> busy{0};

  // ---- the borrower's ----
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  // The generation of the session it is bound to, 0 for none.
  [[nodiscard]] std::uint32_t generation() const noexcept {
    return session ? session->generation() : 0;
  }
  // Nothing in flight is a call's (the old session's work was completed or given up).
  void bind(std::shared_ptr<Session> to);
  // Gives up what is bound: the session reference, staging memory and all bookkeeping.
  void unbind() noexcept;

  [[nodiscard]] ipc::WaitMode wait_mode() const noexcept { return wait_mode_; }
  [[nodiscard]] bool idle() const noexcept { return head == tail; }
  // Something in flight is a call's, which waits for it.
  [[nodiscard]] bool has_calls() noexcept;
  [[nodiscard]] bool full() const noexcept { return tail - head >= kInFlightMax; }
  [[nodiscard]] InFlight& entry(std::uint32_t sequence) noexcept {
    return in_flight[sequence % kInFlightMax];
  }
  // Gives back what the oldest submissions used, as far as they are done.
  void reclaim() noexcept;

  std::shared_ptr<Session> session;
  std::optional<ipc::ClientLane> ring;
  ipc::WaitStrategy wait{ipc::WaitMode::adaptive};
  ipc::WaitStrategy sleeper{ipc::WaitMode::event};  // for long waits, so that `wait` learns nothing
  RegionRecord* last_region = nullptr;              // find()'s last answer, a guess

  std::uint32_t progress_seen = 0;  // of its session; 0: the daemon knows no patience
  // Calls have ended without their answers: the daemon has gone if it gives none by then. 0: none.
  std::uint64_t silence_ends_ns = 0;
  std::uint32_t head = 0;  // oldest submission not given back; free-running
  std::uint32_t tail = 0;  // next submission; its token
  std::array<InFlight, kInFlightMax> in_flight{};
  BatchRun nobody;  // of submissions whose batch has ended without their answers
  std::array<PageSlot, ipc::kPageSlots> slots{};
  RangeRing pages{ipc::kPageSlots};
  RangeRing keys{ipc::kKeyArenaBytes};
  Staging staging;
  std::optional<StagingRequest> staging_request;
  LaneCounters counters;

private:
  std::uint32_t index_;
  ipc::WaitMode wait_mode_;
};

}  // namespace simm::detail
