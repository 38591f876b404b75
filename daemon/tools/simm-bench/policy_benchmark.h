// simm-bench policy: the hits of the store's eviction policies on the traffic of
// policy_workloads.h, beside S3-FIFO and Belady's rule, in caches of 0.5 to 50 % of all pages. No
// daemon is needed. Thread: the main thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/bench_options.h"
#include "daemon/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

struct PolicyOptions {
  std::uint64_t seed = 1;
  std::string only = kAllCases;  // or one of policy_cases()
  double crowd = 1;              // part of the users, documents and jobs that come
  bool quick = false;            // few of them, two sizes of the cache
  bool json = false;
};

// Parts of all pages.
std::span<const double> policy_cache_parts();
// The names of the workloads, in the order in which they run.
std::vector<std::string> policy_cases();
Outcome run_policy_benchmark(const PolicyOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
