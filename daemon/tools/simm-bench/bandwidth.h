// Bandwidth of gets and puts: batches of pages that lie one behind the other in a region, moved
// again and again by each worker. What kv.*_bw and tcp.*_bw have in common.
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/tools/simm-bench/bench_options.h"
#include "daemon/tools/simm-bench/workload_model.h"
#include "simm/client.h"

namespace simm::bench {

struct BandwidthCase {
  const char* name;
  RegionKind kind;
  bool is_put;
};

struct BatchShape {
  std::uint64_t page_bytes = 0;
  std::size_t pages = kPagesPerCall;
  std::size_t batches = 3;  // of a round

  [[nodiscard]] std::uint64_t bytes() const noexcept { return page_bytes * pages; }
};

// Batches of a round that last long enough to be measured; with --quick as little as possible.
BatchShape batch_shape(const BenchOptions& options, std::uint64_t page_bytes);

// Of several workers: all batches together, and for puts also what removes the pages in between.
struct Bandwidth {
  double bytes_per_s = 0;    // of the median batch
  double daemon_cpu_us = 0;  // CPU time of the daemon for each page
};
// Puts are of keys that are not there; every page that is fetched is compared with what its key
// says.
Expected<Bandwidth> measure_bandwidth(const BenchOptions& options, const MeasuredProcess& daemon,
                                      const BandwidthCase& row, const BatchShape& shape);

}  // namespace simm::bench
