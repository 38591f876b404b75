// mix: numbers that follow each other become numbers without a pattern, by one step of splitmix64.
// Thread: any, a pure function.
#pragma once

#include <cstdint>

#include "daemon/base/random.h"

namespace simm::base {

inline std::uint64_t mix(std::uint64_t value) noexcept {
  return splitmix64(value);
}

}  // namespace simm::base
