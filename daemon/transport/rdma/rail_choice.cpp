#include "daemon/transport/rdma/rail_choice.h"

#include <bit>

namespace simm::transport {
namespace {

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
  std::optional<std::size_t> best;
  std::size_t best_bits = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    // From the same place on, so that it wins among equals.
    const std::size_t rail = (far_place + i) % own.size();
    if (own[rail].is_ethernet != far.is_ethernet) continue;
    // On InfiniBand the last half of a GID names the port: only the subnet tells who is reached.
    const std::size_t bits =
        far.is_ethernet ? common_bits(own[rail], far) : common_bits(own[rail], far) / 64;
    if (best && bits <= best_bits) continue;
    best = rail;
    best_bits = bits;
  }
  return best;
}

}  // namespace simm::transport
