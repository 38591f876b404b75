// KeyHash: 128-bit hash of (tenant, namespace, key), seeded with a secret of the cluster so that
// nobody outside can construct collisions. The store compares the full key as well: the hash only
// finds candidates.
#pragma once

#include <compare>
#include <cstdint>

namespace simm::base {

struct KeyHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  auto operator<=>(const KeyHash&) const = default;  // NOLINT(modernize-use-nullptr): of a "0 <"
};

}  // namespace simm::base
