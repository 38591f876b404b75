#include "tests/support/paths.h"

namespace simm::test_support {

std::string program(const std::string& name) {
  return SIMM_PROGRAMS "/" + name;
}

std::string source(const std::string& path) {
  return SIMM_SOURCES "/" + path;
}

}  // namespace simm::test_support
