// How the links of an asking data agent are shared out among the daemons that it asks. It has a
// fixed number of places. One daemon may have more shards than there are places, as a mistake or as
// an attack: the others shall have theirs.
// Pure functions. Thread: any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace simm::control {

// The most links that one peer gets, when those peers want so many: who wants less has all, and the
// others have equally many of what is left. `room` places; at least one each.
[[nodiscard]] inline std::size_t share_links(std::vector<std::size_t> wanted, std::size_t room) {
  std::sort(wanted.begin(), wanted.end());
  std::size_t sharing = wanted.size();
  for (const std::size_t one : wanted) {
    const std::size_t part = room / sharing;
    if (one > part) return std::max<std::size_t>(1, part);
    room -= one;
    --sharing;
  }
  return wanted.empty() ? room : wanted.back();
}

}  // namespace simm::control
