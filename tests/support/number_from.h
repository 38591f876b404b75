// A number that the environment may give a test: how many rounds, which seed.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace simm::test_support {

inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// How often a random test does its work, and its default; never 0. SIMM_ROUNDS_PERCENT scales all
// defaults together, for builds in which everything is slow.
inline std::uint64_t rounds_from(const char* variable, std::uint64_t otherwise) {
  const std::uint64_t scaled = otherwise * number_from("SIMM_ROUNDS_PERCENT", 100) / 100;
  return number_from(variable, scaled == 0 ? 1 : scaled);
}

}  // namespace simm::test_support
