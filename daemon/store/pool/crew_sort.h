// crew_sort(): sorts a long vector with the threads of a RecoveryCrew. Each sorts a part; then
// neighbours are merged, two by two. Equal elements end in any order.
// Thread: the one that recovers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/store/pool/recovery_crew.h"

namespace simm::store {

template <typename T, typename Before>
void crew_sort(std::vector<T>& all, Before before, RecoveryCrew& crew) {
  constexpr std::size_t kPartMin = std::size_t{1} << 14;  // shorter ones are not worth a thread
  std::size_t parts = 1;
  while (parts < crew.threads() && all.size() / (2 * parts) >= kPartMin) parts *= 2;
  const auto at = [&](std::size_t part) {
    return all.begin() + static_cast<std::ptrdiff_t>(all.size() * part / parts);
  };
  crew.run(parts, [&](std::size_t part) { std::sort(at(part), at(part + 1), before); });
  for (std::size_t width = 1; width < parts; width *= 2) {
    crew.run(parts / (2 * width), [&](std::size_t pair) {
      const std::size_t first = pair * 2 * width;
      std::inplace_merge(at(first), at(first + width), at(first + 2 * width), before);
    });
  }
}

}  // namespace simm::store
