// Dice: how the simulation draws. One seed gives independent streams, one for each part that draws,
// so that a change in one part does not reshuffle all others.
// Thread: the one simulated thread.
#pragma once

#include <cstdint>

#include "daemon/base/random.h"

namespace simm::sim {

class Dice {
public:
  Dice(std::uint64_t seed, std::uint64_t stream)
      : seed_(seed), random_(seed * 0x9e3779b97f4a7c15u + stream * 0xd1342543de82ef95u + 1) {}

  // Of all streams of the run.
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  // Uniform in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
    return low + random_.below(high - low + 1);
  }
  std::uint32_t between32(std::uint32_t low, std::uint32_t high) noexcept {
    return static_cast<std::uint32_t>(between(low, high));
  }
  bool percent(std::uint64_t p) noexcept { return random_.below(100) < p; }
  bool per_mille(std::uint64_t p) noexcept { return random_.below(1000) < p; }
  // Mostly near `low`, now and then up to `high`: delays of a network.
  std::uint64_t skewed(std::uint64_t low, std::uint64_t high) noexcept {
    std::uint64_t span = high - low;
    for (std::uint64_t halvings = random_.below(6); halvings > 0; --halvings) span /= 3;
    return low + random_.below(span + 1);
  }
  std::uint64_t next() noexcept { return random_.next(); }

private:
  std::uint64_t seed_;
  base::SeededRandom random_;
};

}  // namespace simm::sim
