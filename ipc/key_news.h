// KeyNews: what became of one key, as a client's session hears of it, and the form of it in a
// control message. The key itself is never in one: its token is, which everybody computes who has
// the key and the salt. A salt is of one life of a daemon, and told to followers alone. Algorithm
// of tokens: XXH3-128 of the key with the salt as seed (xxhash 0.8 specification). Thread: any
// (plain values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "simm/expected.h"

namespace simm::ipc {

struct KeyToken {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const KeyToken&) const = default;
};
[[nodiscard]] KeyToken key_token(std::uint64_t salt, std::string_view key) noexcept;

enum class KeyNewsKind : std::uint8_t {
  stored = 0,   // visible now; it may have taken the place of an older one
  removed = 1,  // somebody asked for that
  evicted = 2,  // its room was needed
  expired = 3,  // its time to live was over
  moved = 4,    // it is with another daemon, or nowhere
  damaged = 5,  // its bytes were not what was stored
  present = 6,  // it was there before it was followed
  gap = 7,      // `bytes` events are lost: what was known of keys is not certain any more
};
inline constexpr std::uint8_t kKeyNewsKindCount = 8;

struct KeyNews {
  KeyToken token;
  std::uint64_t bytes = 0;  // of the object
  KeyNewsKind kind = KeyNewsKind::stored;
  bool operator==(const KeyNews&) const = default;
};

// In one message: 32 bytes each. Low and high half of the token, bytes, and the kind with seven
// bytes of zero behind; little-endian.
inline constexpr std::size_t kKeyNewsBytes = 32;
inline constexpr std::size_t kKeyNewsMax = 1024;

[[nodiscard]] std::vector<std::byte> pack_key_news(std::span<const KeyNews> news);
// invalid_argument: no whole number of them, or too many. incompatible: a kind that is new to us.
[[nodiscard]] Expected<std::vector<KeyNews>> unpack_key_news(std::span<const std::byte> bytes);

}  // namespace simm::ipc
