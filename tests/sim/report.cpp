#include "tests/sim/report.h"

#include <cstdarg>
#include <cstdio>

namespace simm::sim {

void Report::violation(const char* promise, const char* format, ...) {
  if (!clean()) return;
  char text[600];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  promise_ = promise;
  text_ = text;
  loop_.stop();
}

}  // namespace simm::sim
