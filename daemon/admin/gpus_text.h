// What simmctl shows of GPUs. Thread: control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/memory/gpu/gpu_figures.h"
#include "simm/expected.h"

namespace simm::control {

// A row each, by number: that of its counters.
std::string gpus_text(const std::vector<memory::GpuView>& gpus);

// How large tiers shall be from now on, until the daemon ends.
struct TierOrder {
  std::optional<std::size_t> gpu;  // its number; none: of all GPUs
  std::uint64_t bytes = 0;         // at most, of each
};
// "8GiB": of all; "0=8GiB": of the GPU 0. invalid_argument, with the remedy.
Expected<TierOrder> parse_tier_order(std::string_view text);

}  // namespace simm::control
