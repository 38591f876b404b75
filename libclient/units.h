// Units of time that several files convert between. Thread: any.
#pragma once

#include <cstdint>

namespace simm::detail {

inline constexpr std::uint64_t kNsPerMs = 1'000'000;

}  // namespace simm::detail
