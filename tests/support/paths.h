// Where this build's programs and sources lie. Paths as macros would make each clone compile anew
// what another one has compiled. Thread: any.
#pragma once

#include <string>

namespace simm::test_support {

// The program or library `name` of this build.
std::string program(const std::string& name);

// `path` of the source tree.
std::string source(const std::string& path);

}  // namespace simm::test_support
