// RecoveryLoss: why an entry of a kept metadata table did not become an object again. Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace simm::store {

enum class RecoveryLoss : std::uint8_t {
  damaged = 0,      // it is not as it was sealed
  impossible = 1,   // sealed, but it says what no store of this shape would say
  overlapping = 2,  // it and another one name the same bytes of the arena, or the same long key
  superseded = 3,   // an older put of a key that is there: the process died in a replacement
  expired = 4,      // its TTL is over, or runs by the clock of another boot
  refused = 5,      // no room under the quotas and limits of today
};
inline constexpr std::size_t kRecoveryLossCount = 6;
inline constexpr std::array<const char*, kRecoveryLossCount> kRecoveryLossNames = {
    "damaged", "impossible", "overlapping", "superseded", "expired", "refused"};

}  // namespace simm::store
