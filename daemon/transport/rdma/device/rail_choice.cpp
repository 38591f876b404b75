#include "daemon/transport/rdma/device/rail_choice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace simm::transport {
namespace {

// A GID that holds an IPv4 address begins with these.
constexpr std::array<std::uint8_t, 12> kIpv4Front = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// Bits of a GID that may name a network. What follows names a port in it: its likeness to another
// port's says nothing about the way there, and would send all to one.
std::size_t network_bits(const QueuePairAddress& address) noexcept {
  const bool is_ipv4 = std::equal(kIpv4Front.begin(), kIpv4Front.end(), address.gid.begin());
  return is_ipv4 ? 96 + 24 : 64;
}

// Bits from the front that both GIDs have.
std::size_t common_bits(const QueuePairAddress& one, const QueuePairAddress& other) noexcept {
  std::size_t bits = 0;
  for (std::size_t i = 0; i < one.gid.size(); ++i) {
    const auto differs = static_cast<std::uint8_t>(one.gid[i] ^ other.gid[i]);
    if (differs != 0) return bits + static_cast<std::size_t>(std::countl_zero(differs));
    bits += 8;
  }
  return bits;
}

}  // namespace

std::optional<std::size_t> choose_rail(std::span<const QueuePairAddress> own,
                                       const QueuePairAddress& far,
                                       std::size_t far_place) noexcept {
  const auto likeness = [&far](const QueuePairAddress& rail) -> std::optional<std::size_t> {
    if (rail.is_ethernet != far.is_ethernet) return std::nullopt;
    const std::size_t common = std::min(common_bits(rail, far), network_bits(far));
    // A subnet of InfiniBand has the whole first half.
    return far.is_ethernet ? common : common / 64;
  };
  std::optional<std::size_t> best;
  std::size_t equals = 0;
  for (const QueuePairAddress& rail : own) {
    const auto bits = likeness(rail);
    if (bits && (!best || *bits > *best)) {
      best = bits;
      equals = 0;
    }
    if (bits && bits == best) ++equals;
  }
  if (!best) return std::nullopt;
  // Among those alone: each gets as many of the far ones as the others.
  std::size_t left = far_place % equals;
  for (std::size_t rail = 0;; ++rail) {
    if (likeness(own[rail]) == best && left-- == 0) return rail;
  }
}

}  // namespace simm::transport
