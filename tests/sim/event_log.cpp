#include "tests/sim/event_log.h"

#include <cstdarg>
#include <cstdio>

namespace simm::sim {

void EventLog::line(const char* format, ...) {
  char text[400];
  const base::TimeNs now = loop_.now_ns() - 1'000 * kSecond;
  const int head = std::snprintf(text, sizeof(text), "%4llu.%09llu  ",
                                 static_cast<unsigned long long>(now / kSecond),
                                 static_cast<unsigned long long>(now % kSecond));
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text + head, sizeof(text) - static_cast<std::size_t>(head), format, arguments);
  va_end(arguments);
  if (mode_ == LogMode::everything) std::printf("%s\n", text);
  if (mode_ != LogMode::tail) return;
  tail_.emplace_back(text);
  if (tail_.size() > kTailLines) tail_.pop_front();
}

void EventLog::print_tail() const {
  for (const std::string& text : tail_) std::fprintf(stderr, "  %s\n", text.c_str());
}

}  // namespace simm::sim
