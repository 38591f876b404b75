#include "daemon/tools/simm-bench/replay_picture.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>

namespace simm::bench {
namespace {

constexpr std::array<const char*, 9> kHeights = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::size_t kHistogramColumns = 40;

// Fetches by powers of two of their microseconds, from the first that has any to the last.
std::string histogram_of(const std::vector<std::uint64_t>& fetch_ns) {
  std::array<std::uint64_t, 65> counts{};
  for (const std::uint64_t ns : fetch_ns) ++counts[std::bit_width(ns / 1000)];
  const auto has_some = [](std::uint64_t count) { return count != 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), has_some);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), has_some).base();
  const std::uint64_t most = *std::max_element(counts.begin(), counts.end());
  std::string text;
  for (auto count = first; count < last; ++count) {
    const auto power = static_cast<unsigned>(count - counts.begin());
    const double part = static_cast<double>(*count) / static_cast<double>(fetch_ns.size());
    char line[64];
    std::snprintf(line, sizeof line, "    < %9" PRIu64 " us %5.1f %%  ", std::uint64_t{1} << power,
                  100 * part);
    text += line;
    for (std::uint64_t i = 0; i < (*count * kHistogramColumns + most - 1) / most; ++i) text += "█";
    text += "\n";
  }
  return text;
}

}  // namespace

std::string bars_of(const std::vector<double>& values, double top) {
  std::string bars;
  for (const double value : values) {
    const double part = top > 0 ? std::clamp(value / top, 0.0, 1.0) : 0;
    bars += kHeights[static_cast<std::size_t>(std::lround(part * (kHeights.size() - 1)))];
  }
  return bars;
}

std::string replay_picture(const std::vector<ReplaySummary>& summaries) {
  std::string text;
  for (const ReplaySummary& summary : summaries) {
    const ReplayCourse course = course_of(summary.samples);
    if (course.hit_rate.empty()) continue;
    const double top = *std::max_element(course.bytes_per_s.begin(), course.bytes_per_s.end());
    char line[80];
    std::snprintf(line, sizeof line, "\n%s, over %.1f s\n", summary.model.c_str(),
                  summary.samples.back().seconds);
    text += line;
    text += "  hit rate  " + bars_of(course.hit_rate, 1) + "  full height: 100 %\n";
    std::snprintf(line, sizeof line, "  full height: %.2f GB/s\n", top / 1e9);
    text += "  bytes     " + bars_of(course.bytes_per_s, top) + line;
    if (!summary.fetch_ns.empty()) {
      text += "  fetches of up to 128 pages, by their time\n" + histogram_of(summary.fetch_ns);
    }
  }
  return text;
}

}  // namespace simm::bench
