// perftest, the bare RDMA benchmarks that everybody has (`ib_write_bw` and its sisters), as the
// baseline of rdma.*. Both ends run here, one on each device, and meet over 127.0.0.1.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/tools/simm-bench/bench_options.h"
#include "simm/expected.h"

namespace simm::bench {

struct PerftestRun {
  std::string program;  // one of perftest's that end in _bw or _lat
  std::uint64_t bytes = 0;
  std::uint64_t iterations = 0;  // at least kPerftestIterationsMin
};
inline constexpr std::uint64_t kPerftestIterationsMin = 5;

// Two devices that reach each other; the near one asks.
struct DevicePair {
  std::string near;
  std::string far;
};

// What perftest measured: of _bw the mean bytes per second, of _lat the median microseconds of one
// way. From what the asking end printed; an error says what was expected in the place of what.
Expected<double> parse_perftest(const PerftestRun& run, std::string_view text);

// Runs it on all pairs at the same time: bandwidths are added up, of latencies the first counts.
// perftest measures how fast the CPU's counter goes before anything else. Where that fails again
// and again, because others take the CPU meanwhile, there is no figure: noisy, and nought.
Expected<Baseline> run_perftest(const PerftestRun& run, const std::vector<DevicePair>& pairs);

// The pairs of near and far devices, one behind the other, if there are as many of both and this
// host has them; else what to do.
Expected<std::vector<DevicePair>> device_pairs(const std::vector<std::string>& near,
                                               const std::vector<std::string>& far);

}  // namespace simm::bench
