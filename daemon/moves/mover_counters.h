// What an agent counts of the objects that move on with slots it has lost. Thread: written by its
// data agent.
#pragma once

#include <string_view>

#include "daemon/base/counter_group.h"

namespace simm::moves {

struct MoverCounters : base::CounterGroup {
  MoverCounters() = default;  // counts into unread cells
  // `prefix`: "moves.0" of the data agent 0.
  MoverCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "agent") {}

  base::Counter objects =
      counter("objects", {"simm_moves_objects_total",
                          "Objects that the new owner of their slot has taken from this daemon."});
  base::Counter bytes = counter("bytes", {"simm_moves_bytes_total", "Bytes of those."});
  base::Counter refused =
      counter("refused", {"simm_moves_refused_total",
                          "Objects that the new owner did not take: their key was written or "
                          "removed since, or there was no room."});
  base::Counter failed = counter("failed", {"simm_moves_failed_total",
                                            "Attempts to move an object that had no answer; most "
                                            "are tried again."});
  base::Counter told = counter(
      "told",
      {"simm_moves_told_total", "Objects that new owners were told of before they were sent."});
  base::Counter wanted =
      counter("wanted", {"simm_moves_wanted_total",
                         "Objects sent before all others: clients of the new owner wait."});
  base::Counter cold_slots =
      counter("cold_slots", {"simm_moves_cold_slots_total",
                             "Slots whose move was ended early: what was left of them was dropped "
                             "before it had been offered."});
  base::Counter departing_slots = counter(
      "departing_slots",
      {"simm_moves_departing_slots", "Slots whose objects are on their way to the new owner."});
};

}  // namespace simm::moves
