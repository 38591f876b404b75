#include "tests/sim/payload.h"

#include "daemon/base/random.h"

namespace simm::sim {

Payload Payload::of(std::uint64_t key, std::uint64_t version) noexcept {
  std::uint64_t state = key * 0x9e3779b97f4a7c15u ^ version;
  return {base::splitmix64(state)};
}

std::byte Payload::byte_at(std::uint64_t place) const noexcept {
  // One multiplication for eight bytes would be enough; one for each keeps ranges simple.
  const std::uint64_t mixed = (seed + (place >> 3) * 0xd1342543de82ef95u) * 0x9e3779b97f4a7c15u;
  return static_cast<std::byte>(mixed >> ((place & 7) * 7));
}

void Payload::fill(std::span<std::byte> out, std::uint64_t at) const noexcept {
  for (std::byte& byte : out) byte = byte_at(at++);
}

bool Payload::matches(std::span<const std::byte> bytes, std::uint64_t at) const noexcept {
  for (const std::byte byte : bytes) {
    if (byte != byte_at(at++)) return false;
  }
  return true;
}

}  // namespace simm::sim
