#include "daemon/base/wall_time.h"

#include <array>
#include <chrono>
#include <cstdio>

namespace simm::base {

using namespace std::chrono;

std::uint64_t wall_time_ns() noexcept {
  const auto now = floor<nanoseconds>(system_clock::now().time_since_epoch());
  return static_cast<std::uint64_t>(now.count());
}

// Not gmtime_r(), which opens the file of the time zone when it is called for the first time: a
// filtered helper may not.
std::string wall_time_text(std::uint64_t wall_ns) {
  const sys_time<milliseconds> now(milliseconds(wall_ns / 1'000'000));
  const auto midnight = floor<days>(now);
  const year_month_day date(midnight);
  const hh_mm_ss time(now - midnight);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
                static_cast<int>(time.subseconds().count()));
  return text.data();
}

}  // namespace simm::base
