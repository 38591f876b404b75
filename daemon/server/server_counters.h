// What a server counts, and the numbers of its store, published where other processes read them.
// Thread: written by the server's data agent.
#pragma once

#include <array>
#include <string_view>

#include "daemon/base/counters.h"
#include "daemon/store/store_stats.h"

namespace simm::server {

struct ServerCounters {
  ServerCounters() = default;  // counts into unread cells
  // Names are "<prefix>.<counter>", for instance "server.0.requests".
  ServerCounters(base::CounterSet& set, std::string_view prefix);

  base::Counter requests;
  base::Counter refused_requests;  // more at once than requests_max
  base::Counter invalid_pages;     // answered invalid_argument
  base::Counter wrong_epoch;       // pages: of slots that are not ours, or of a map not known yet
  base::Counter recovering_pages;  // answered unreachable, because the store was not recovered yet
  base::Counter get_pages;         // moved
  base::Counter get_bytes;
  base::Counter put_pages;  // published
  base::Counter put_bytes;
  base::Counter misses;  // get pages that were not there
  base::Counter size_mismatches;
  base::Counter verified;  // get pages compared with their checksum
  base::Counter corrupt;   // of those: different
  base::Counter failed_moves;
  base::Counter cancels;
  base::Counter cancelled_pages;
  base::Counter aborts;
  base::Counter timeouts;     // pages
  base::Counter space_waits;  // attempts of puts that found no room yet
  base::Counter no_space;     // pages that waited in vain
};

// The store's numbers under "<prefix>.<name>"; gauges and counters alike are copied by publish().
class StoreCounters {
public:
  static constexpr std::size_t kCount = 52;

  StoreCounters() = default;  // publishes into unread cells
  StoreCounters(base::CounterSet& set, std::string_view prefix);

  void publish(const store::StoreStats& stats) noexcept;

private:
  template <std::size_t kClasses>
  using ByClass = std::array<base::Counter, kClasses>;

  std::array<base::Counter, kCount> counters_;
  ByClass<store::kLengthClasses.size()> objects_by_length_;
  ByClass<store::kLengthClasses.size()> bytes_by_length_;
  ByClass<store::kAgeClasses.size()> evicted_by_age_;
  ByClass<store::kUseClasses.size()> evicted_by_uses_;
  ByClass<store::kReuseClasses.size()> reused_by_age_;
};

}  // namespace simm::server
