// StoreCounters: the numbers of a shard's store, published where other processes read them. The
// store counts in plain numbers (StoreStats); publish() copies them, gauges and counters alike.
// Owned by the server. Thread: its data agent.
#pragma once

#include <array>
#include <string_view>

#include "daemon/base/counter_group.h"
#include "daemon/store/store_stats.h"

namespace simm::server {

class StoreCounters : base::CounterGroup {
public:
  StoreCounters() = default;  // publishes into unread cells
  // `prefix`: "store.0" of the data agent 0.
  StoreCounters(base::CounterSet& set, std::string_view prefix);

  void publish(const store::StoreStats& stats) noexcept;

private:
  static constexpr std::size_t kNumbers = 41;

  std::array<base::Counter, kNumbers> numbers_;
  std::array<base::Counter, store::kLeaseLossCount> lost_in_lease_ =
      counters("lost_in_lease.", store::kLeaseLossNames, "cause",
               {"simm_store_lost_in_lease_total", "Objects lost inside their lease."});
  std::array<base::Counter, store::kRecoveryLossCount> lost_at_recovery_ =
      counters("lost_at_recovery.", store::kRecoveryLossNames, "cause",
               {"simm_store_lost_at_recovery_total",
                "Entries of the kept metadata table that did not come back."});
  std::array<base::Counter, store::kLengthClasses.size()> objects_by_length_ =
      counters("objects_by_length.", store::kLengthClasses, "up_to",
               {"simm_store_objects_by_length",
                "Objects that are there, by their length; the class ends there."});
  std::array<base::Counter, store::kLengthClasses.size()> bytes_by_length_ =
      counters("bytes_by_length.", store::kLengthClasses, "up_to",
               {"simm_store_bytes_by_length", "Bytes of those."});
  std::array<base::Counter, store::kAgeClasses.size()> evicted_by_age_ =
      counters("evicted_by_age.", store::kAgeClasses, "up_to",
               {"simm_store_evicted_by_age_total",
                "Evicted objects by the time since their group was used last."});
  std::array<base::Counter, store::kUseClasses.size()> evicted_by_uses_ = counters(
      "evicted_by_uses.", store::kUseClasses, "up_to",
      {"simm_store_evicted_by_uses_total", "Evicted objects by how often their group was used."});
  std::array<base::Counter, store::kReuseClasses.size()> reused_by_age_ =
      counters("reused_by_age.", store::kReuseClasses, "up_to",
               {"simm_store_reused_by_age_total",
                "Groups that were used again, by the time since their use before; uses within a "
                "second are one."});
};

}  // namespace simm::server
