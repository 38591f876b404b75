// Tracer: when the stages of some operations began and ended, for somebody who looks for a while.
// Off, it costs its agent one comparison for each operation. The control thread makes a TraceRun
// for each agent and orders it. The agent notices in its next turn, records one of `one_in` of what
// it begins, and stops by itself when the time is over. A seeded hash chooses, so that no rhythm of
// the clients meets it. One thing is one record, pushed when it is over: what does not fit is
// dropped whole, and counted.
//
// Lifetime: a run is destroyed only when is_using() says no; an agent that sleeps has to be woken
// to notice.
// Thread: order() and is_using() control; TraceRun's mailbox has the agent as its sender and the
// control thread as its receiver; everything else the agent's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/mix.h"
#include "daemon/base/trace_export.h"
#include "daemon/base/trace_record.h"

namespace simm::base {

struct TraceRun {
  struct Wish {
    std::uint32_t one_in = 1;
    std::uint64_t seed = 0;
    TimeNs until_ns = 0;
    // Also what other daemons ask without tracing it themselves. Only where there are no clients.
    bool samples_requests = false;
  };
  explicit TraceRun(const Wish& wanted) : wish(wanted), records(kTraceRecordsAhead) {}

  static constexpr std::size_t kTraceRecordsAhead = 4096;  // a turn of the control thread drains it
  const Wish wish;
  SpscMailbox<TraceRecord> records;
  // Written by the agent alone.
  std::atomic<std::uint64_t> begun{0};    // of them these were looked at,
  std::atomic<std::uint64_t> sampled{0};  // these chosen,
  std::atomic<std::uint64_t> dropped{0};  // and of these, these did not fit
};

class Tracer {
public:
  // ---- agent
  [[nodiscard]] bool on() const noexcept { return run_ != nullptr; }
  // Or operations are exported: each that begins is looked at.
  [[nodiscard]] bool watches() const noexcept { return watches_; }
  // nullptr: nothing is exported.
  [[nodiscard]] TraceExport* exports() const noexcept { return export_; }

  // Once in a turn. Off, it is a load and two comparisons: no look at the clock.
  void take_orders(const Clock& clock) noexcept {
    TraceRun* const wanted = wanted_.load(std::memory_order_acquire);
    if (wanted == taken_ && run_ == nullptr) return;
    if (wanted != taken_) {
      taken_ = wanted;
      run_ = wanted;
      used_.store(wanted, std::memory_order_release);
    }
    if (run_ != nullptr && clock.now_ns() >= run_->wish.until_ns) run_ = nullptr;
    watches_ = run_ != nullptr || export_ != nullptr;
  }

  // While on(): the id of an operation that begins, 0 when it is not chosen.
  [[nodiscard]] std::uint64_t choose() noexcept {
    const std::uint64_t mixed = mix(run_->wish.seed + count(run_->begun));
    if ((mixed >> 16) % run_->wish.one_in != 0) return 0;
    count(run_->sampled);
    // Odd: never 0. The seed is drawn by the control thread for each agent and run.
    return mix(mixed ^ run_->wish.seed) | 1;
  }
  // While on(): of a request that arrives, `id` from its requester.
  [[nodiscard]] std::uint64_t choose_request(std::uint64_t id) noexcept {
    if (!run_->wish.samples_requests) return id;
    if (id == 0) return choose();
    count(run_->sampled);
    return id;
  }

  // Something chosen is over. It may have been chosen in a run that has ended since.
  void push(const TraceRecord& record) noexcept {
    if (taken_ != nullptr && !taken_->records.try_push(record)) count(taken_->dropped);
  }

  // ---- control
  // Before the agent runs. `to` outlives it.
  void export_to(TraceExport& to) noexcept {
    export_ = &to;
    watches_ = true;
  }
  // nullptr: off. A run stays the caller's.
  void order(TraceRun* run) noexcept { wanted_.store(run, std::memory_order_release); }
  [[nodiscard]] bool is_using(const TraceRun* run) const noexcept {
    return used_.load(std::memory_order_acquire) == run;
  }

private:
  // The value before. One writer: no locked instruction.
  static std::uint64_t count(std::atomic<std::uint64_t>& counter) noexcept {
    const std::uint64_t before = counter.load(std::memory_order_relaxed);
    counter.store(before + 1, std::memory_order_relaxed);
    return before;
  }

  bool watches_ = false;
  TraceExport* export_ = nullptr;
  TraceRun* run_ = nullptr;    // null: off, or its time is over
  TraceRun* taken_ = nullptr;  // the last order
  std::atomic<TraceRun*> wanted_{nullptr};
  alignas(kSeparate) std::atomic<TraceRun*> used_{nullptr};
};

}  // namespace simm::base
