// RandomId: a name of 128 random bits, drawn once and never again. One type for each thing that is
// named so (incarnation.h, lineage.h). A plain value; all zero names nothing. Thread: any.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "daemon/base/random.h"

namespace simm::cluster {

template <typename Named>
struct RandomId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  static RandomId draw(base::Random& random) noexcept {
    RandomId drawn;
    while (!drawn.is_set()) drawn = {random.next(), random.next()};
    return drawn;
  }

  [[nodiscard]] bool is_set() const noexcept { return (high | low) != 0; }

  // 32 hex digits.
  [[nodiscard]] std::string text() const {
    constexpr char kHex[] = "0123456789abcdef";
    std::string digits;
    for (const std::uint64_t half : {high, low}) {
      for (unsigned shift = 64; shift > 0;) digits += kHex[half >> (shift -= 4) & 15];
    }
    return digits;
  }

  // NOLINTNEXTLINE(modernize-use-nullptr): takes the 0 of a rewritten < for a pointer
  auto operator<=>(const RandomId&) const = default;
};

}  // namespace simm::cluster
