// What an agent counts of second copies that it makes again. Thread: written by its data agent.
#pragma once

#include <string_view>

#include "daemon/base/counter_group.h"

namespace simm::moves {

struct RefillCounters : base::CounterGroup {
  RefillCounters() = default;  // counts into unread cells
  // `prefix`: "refills.0" of the data agent 0.
  RefillCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "agent") {}

  base::Counter objects =
      counter("objects", {"simm_refills_objects_total",
                          "Second copies that this daemon has made again at the new owners of "
                          "mirrored slots."});
  base::Counter bytes = counter("bytes", {"simm_refills_bytes_total", "Bytes of those."});
  base::Counter refused =
      counter("refused", {"simm_refills_refused_total",
                          "Second copies that the new owner did not take: their key was removed "
                          "since, or there was no room."});
  base::Counter failed =
      counter("failed", {"simm_refills_failed_total",
                         "Attempts to make a second copy that had no answer; most are repeated."});
  base::Counter slots = counter(
      "slots", {"simm_refills_slots",
                "Slots of this daemon whose mirrors have an owner that is given copies now."});
};

}  // namespace simm::moves
