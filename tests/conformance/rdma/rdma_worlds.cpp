#include <cstdlib>

#include "tests/conformance/rdma/rdma_world.h"

namespace rdma_conformance {

std::vector<RdmaWorldKind> rdma_worlds(std::uint64_t seeds) {
  std::vector<RdmaWorldKind> kinds;
  if (const char* const names = std::getenv("SIMM_RDMA_DEVICES"); names != nullptr) {
    kinds.push_back(verbs_world(names));
    return kinds;
  }
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) kinds.push_back(sim_world(seed));
  return kinds;
}

}  // namespace rdma_conformance
