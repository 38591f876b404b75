#include "daemon/memory/numa_node.h"

#include <numaif.h>

#include <algorithm>
#include <array>

#include "daemon/memory/region_pages.h"

namespace simm::memory {

namespace {

constexpr std::uint64_t kSamples = 16;
constexpr std::uint64_t kNodePageBytes = 4096;
constexpr int kNodesMax = 64;

}  // namespace

std::int16_t numa_node_of(std::byte* mapping, std::uint64_t bytes, const RegionPages* pages) {
  std::array<int, kNodesMax> votes{};
  const std::uint64_t page_count = bytes / kNodePageBytes;
  for (std::uint64_t i = 0; i < std::min(kSamples, page_count); ++i) {
    const std::uint64_t offset = i * page_count / kSamples * kNodePageBytes;
    if (pages == nullptr || pages->absent_bytes(offset, kNodePageBytes) != 0) continue;
    int node = -1;
    // Looks the page up as a read would: a page that vanished meanwhile is EFAULT here, no signal.
    // SAFETY: offset is below bytes.
    if (::get_mempolicy(&node, nullptr, 0, mapping + offset, MPOL_F_NODE | MPOL_F_ADDR) != 0) break;
    if (node >= 0 && node < kNodesMax) ++votes[static_cast<std::size_t>(node)];
  }
  const auto most = std::max_element(votes.begin(), votes.end());
  return *most == 0 ? std::int16_t{-1} : static_cast<std::int16_t>(most - votes.begin());
}

}  // namespace simm::memory
