// Identifiers that cross module borders. Strong enough not to be mixed up, plain enough for the
// wire.
#pragma once

#include <compare>
#include <cstdint>

namespace simm::base {

// Tenant and namespace: keyed 64-bit hashes of their names (cluster seed), so every daemon of a
// cluster derives the same value without asking anybody. The tenant is decided by the daemon from
// the listening socket and the peer's credentials, never taken from a message.
struct TenantId {
  std::uint64_t value = 0;
  auto operator<=>(const TenantId&) const = default;
};
struct NamespaceId {
  std::uint64_t value = 0;
  auto operator<=>(const NamespaceId&) const = default;
};

// A storage server as this daemon knows it: index into its own peer table. 0 is this daemon itself.
struct PeerId {
  std::uint32_t value = 0;
  auto operator<=>(const PeerId&) const = default;
};
inline constexpr PeerId kSelf{0};

// Version of the placement map. Grows only.
using Epoch = std::uint64_t;

// Unit of placement: the top bits of a group hash.
inline constexpr std::uint32_t kSlotBits = 14;
inline constexpr std::uint32_t kSlotCount = 1u << kSlotBits;  // 16,384
using Slot = std::uint16_t;
constexpr Slot slot_of(std::uint64_t group_hash) {
  return static_cast<Slot>(group_hash >> (64 - kSlotBits));
}

}  // namespace simm::base
