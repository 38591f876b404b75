// Group keys: which part of a key decides where it lives and with whom it is evicted. K, V,
// tensor-parallel parts and sidecars of one page carry the page's digest at the front of their keys
// and differ behind it. So they share one group: one daemon, one shard, one lease, one eviction.
//
// A pure function of the protocol: every daemon and every version computes the same.
// Thread: any.
#pragma once

#include <string_view>

namespace simm::engine {

// The shortest run of hex digits that is taken for a digest (128 bits).
inline constexpr std::size_t kGroupHexDigitsMin = 32;

// The key up to the end of its first run of at least kGroupHexDigitsMin hex digits; else the part
// between its first '{' and the first '}' behind that, if it is not empty; else the whole key.
// A view into `key`.
std::string_view group_of(std::string_view key) noexcept;

}  // namespace simm::engine
