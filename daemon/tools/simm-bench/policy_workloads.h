// The traffic of simm-bench policy: eighteen workloads, each with what is asked of them.
// Thread: any.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/tools/simm-bench/policy_traffic.h"

namespace simm::bench {

struct PolicyWorkload {
  const char* name;
  void (*make)(PolicyTraffic& traffic);

  // `crowd` as PolicyTraffic has it: 1 for all of it.
  [[nodiscard]] PolicyTraffic traffic(std::uint64_t seed, double crowd) const;
};

std::span<const PolicyWorkload> policy_workloads();

}  // namespace simm::bench
