// ReplayTally: what a replay counts, once for a rank (atomics in shared memory) and once for the
// sum of all. The one place that lists these figures and adds them up.
// Thread: Count decides; a rank writes its own.
#pragma once

#include <cstdint>

namespace simm::bench {

template <typename Count>
struct ReplayTally {
  Count pages_vanished{};  // found by the probe, gone at the fetch
  Count put_failures{};    // objects
  Count bytes_stored{};
  Count bytes_fetched{};
  Count bytes_verified{};
  Count bytes_wrong{};

  template <typename Other>
  void add(const ReplayTally<Other>& more) {
    pages_vanished += more.pages_vanished;
    put_failures += more.put_failures;
    bytes_stored += more.bytes_stored;
    bytes_fetched += more.bytes_fetched;
    bytes_verified += more.bytes_verified;
    bytes_wrong += more.bytes_wrong;
  }
};

}  // namespace simm::bench
