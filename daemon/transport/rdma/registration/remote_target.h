// RemoteTarget: registered memory as a peer's device may name it. Its bytes go over the wire in
// requests (message_wire.h), so every offset is asserted. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simm::transport::wire {

inline constexpr std::uint32_t kTargetsOfPageMax = 2;  // a page may lie in two registrations

// A piece of a page's slice as the requester's device knows it. The pieces of a page are in order
// and together as long as its slice.
struct RemoteTarget {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t key;
  std::uint32_t page;
};
static_assert(sizeof(RemoteTarget) == 24);
static_assert(offsetof(RemoteTarget, bytes) == 8);
static_assert(offsetof(RemoteTarget, key) == 16);
static_assert(offsetof(RemoteTarget, page) == 20);

}  // namespace simm::transport::wire
