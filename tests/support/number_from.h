// A number that the environment may give a test: how many rounds, which seed.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace simm::test_support {

inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace simm::test_support
