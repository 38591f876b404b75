// What becomes of the operations that a receiver of traces is to be told of. Thread: control.
#pragma once

#include <array>
#include <string_view>

#include "daemon/base/counter_group.h"

namespace simm::traces {

enum class TraceDropped : std::uint8_t {
  over_rate,  // its tenant had its share of this second
  no_room,    // too many waited
  refused,    // the receiver did not take it, or did not answer
};

struct ExporterCounters : base::CounterGroup {
  ExporterCounters() = default;  // counts into unread cells
  explicit ExporterCounters(base::CounterSet& set) : CounterGroup(set, "traces") {}

  base::Counter exported =
      counter("exported", {"simm_traces_exported_total",
                           "Operations that the receiver of traces (trace.endpoint) has taken."});
  std::array<base::Counter, 3> dropped = counters(
      "dropped.", std::array<std::string_view, 3>{"over_rate", "no_room", "refused"}, "cause",
      {"simm_traces_dropped_total",
       "Operations that were chosen for the receiver of traces and that it has not."});

  [[nodiscard]] base::Counter& dropped_for(TraceDropped cause) noexcept {
    return dropped[static_cast<std::size_t>(cause)];
  }
};

}  // namespace simm::traces
