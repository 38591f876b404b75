// What a command of the shell says, and how it ends. Thread: a test's.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <string>

namespace simm::test_support {

struct CommandOutput {
  std::string text;  // both streams
  int status = 0;    // of the exit
};

inline CommandOutput output_of(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  CommandOutput output;
  std::array<char, 4096> part{};
  for (std::size_t got = 0; (got = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    output.text.append(part.data(), got);
  }
  output.status = ::pclose(pipe) >> 8;
  return output;
}

}  // namespace simm::test_support
