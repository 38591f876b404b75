// PageSizes: lengths of the objects of one deployment, for measurements of a store's memory.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/random.h"

namespace simm::bench {

// All lengths from least to most, equally likely; often there is one.
struct Lengths {
  std::uint64_t least;
  std::uint64_t most;
};

struct PageSizes {
  std::string name;
  std::vector<Lengths> ranges;  // equally likely

  [[nodiscard]] std::uint64_t next(base::SeededRandom& random) const;
  [[nodiscard]] std::uint64_t least() const noexcept;
  [[nodiscard]] std::uint64_t most() const noexcept;
};

// What deployments store: pages of 64 tokens of known models, states of Mamba layers, pages of one
// token; some together, all together (mixed), and everything from 4 KiB to 8 MiB.
std::vector<PageSizes> known_page_sizes();
// The one of these that has this name; none other may be asked for.
PageSizes page_sizes_named(const std::string& name);

}  // namespace simm::bench
