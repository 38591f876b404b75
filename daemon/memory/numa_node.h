// The NUMA node on which a region's memory lies. Asks the kernel about a few pages that exist;
// touches none that does not. Thread: control, registrar (a system call for each page asked about).
#pragma once

#include <cstddef>
#include <cstdint>

namespace simm::memory {

class RegionPages;

// The node of most of the pages asked about, -1 when none of them is known to exist or the kernel
// does not say. `pages` null: which pages exist is not known, and none is asked about.
std::int16_t numa_node_of(std::byte* mapping, std::uint64_t bytes, const RegionPages* pages);

}  // namespace simm::memory
