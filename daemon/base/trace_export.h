// TraceExport: operations of one data agent that a receiver of traces is told of, as long as the
// daemon lives. An operation that its client calls part of a trace is chosen, and of the others one
// of so many; of each tenant at most so many in a second, whatever clients say. One operation is
// one record, pushed when it is over: what does not fit is dropped and counted.
//
// Each of the others is chosen with the same chance, by itself. How many are passed over until the
// next one is drawn at once (the geometric distribution), so one that is not chosen costs a
// decrement.
// Owned by the exporter, and outlives the agent. Thread: the agent's, but for records' receiver and
// the counts, which the control thread reads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/mix.h"
#include "daemon/base/trace_record.h"

namespace simm::base {

// The span of a client that an operation is part of (W3C Trace Context); all zeros: none.
struct TraceParent {
  std::uint64_t trace_high = 0;
  std::uint64_t trace_low = 0;
  std::uint64_t span = 0;

  [[nodiscard]] bool is_set() const noexcept { return (trace_high | trace_low) != 0; }
};

// For whom an operation is sampled.
struct TraceMark {
  bool is_recorded = false;  // simmctl trace
  bool is_exported = false;
  TraceParent parent;
};

struct ExportedTrace {
  TraceRecord record;
  TraceParent parent;  // its trace is never zero, its span is where the daemon chose by itself
};

// How many traces of a tenant may still be told of. The generic cell rate algorithm (ITU-T I.371),
// with a burst of what one second allows.
class TraceAllowance {
public:
  [[nodiscard]] bool take(std::uint32_t per_second, TimeNs now_ns) noexcept {
    const TimeNs due_ns = std::max(due_ns_, now_ns);
    const TimeNs next_ns = due_ns + kNsPerSecond / per_second;
    if (next_ns - now_ns > kNsPerSecond) return false;
    due_ns_ = next_ns;
    return true;
  }

private:
  TimeNs due_ns_ = 0;
};

struct TraceExport {
  struct Wish {
    std::uint32_t one_in = 0;  // of operations without a parent; 0: none of them
    std::uint32_t per_second = 1;
    std::uint64_t seed = 0;  // another one for each agent of each daemon
  };
  explicit TraceExport(const Wish& wanted)
      : wish(wanted), records(kTracesAhead), passed_over_(draw_distance()) {}

  static constexpr std::size_t kTracesAhead = 1024;  // a look of the control thread drains it
  const Wish wish;
  SpscMailbox<ExportedTrace> records;
  // Written by the agent alone: chosen, but not told of.
  std::atomic<std::uint64_t> over_rate{0};
  std::atomic<std::uint64_t> no_room{0};

  // Of an operation without a parent, once: whether it is none to be told of. Most are not.
  [[nodiscard]] bool passes_over() noexcept { return --passed_over_ != 0; }

  // Whether an operation that has a parent, or that was not passed over, may be told of. Fills in a
  // trace of its own when it has none.
  [[nodiscard]] bool choose(TraceParent& parent, TraceAllowance& allowance,
                            TimeNs now_ns) noexcept {
    const bool has_parent = parent.is_set();
    if (!has_parent) passed_over_ = draw_distance();
    if (!allowance.take(wish.per_second, now_ns)) {
      count(over_rate);
      return false;
    }
    if (!has_parent) parent = {draw(), draw() | 1, 0};
    return true;
  }
  // Whether a request that another daemon calls part of a trace may be told of. Tenants are kept
  // apart as far as there are places.
  [[nodiscard]] bool choose_request(std::uint64_t tenant, TimeNs now_ns) noexcept {
    if (of_requests_[mix(tenant) % of_requests_.size()].take(wish.per_second, now_ns)) return true;
    count(over_rate);
    return false;
  }
  // Never 0, and of one operation alone.
  [[nodiscard]] std::uint64_t new_id() noexcept { return draw() | 1; }

  void push(const ExportedTrace& trace) noexcept {
    if (!records.try_push(trace)) count(no_room);
  }

private:
  // One writer: no locked instruction.
  static void count(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint64_t draw() noexcept { return mix(wish.seed ^ mix(drawn_++)); }

  // From one operation that is chosen to the next one, which counts.
  [[nodiscard]] std::uint64_t draw_distance() noexcept {
    if (wish.one_in == 0) return ~std::uint64_t{0};  // in no daemon's life
    if (wish.one_in == 1) return 1;
    // Above 0 and at most 1.
    const double uniform = (static_cast<double>(draw() >> 11) + 1) * 0x1p-53;
    return 1 + static_cast<std::uint64_t>(std::log(uniform) / std::log1p(-1.0 / wish.one_in));
  }

  std::array<TraceAllowance, 64> of_requests_;  // by a hash of the tenant
  std::uint64_t drawn_ = 0;
  std::uint64_t passed_over_;  // after all that draw_distance() uses
};

}  // namespace simm::base
