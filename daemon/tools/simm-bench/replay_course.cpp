#include "daemon/tools/simm-bench/replay_course.h"

namespace simm::bench {
namespace {

ReplaySample sample_until(const std::vector<ReplaySample>& samples, double seconds) {
  ReplaySample last;
  for (const ReplaySample& sample : samples) {
    if (sample.seconds > seconds) break;
    last = sample;
  }
  return last;
}

}  // namespace

ReplayCourse course_of(const std::vector<ReplaySample>& samples, std::size_t columns) {
  ReplayCourse course;
  if (samples.empty()) return course;
  const double part_s = samples.back().seconds / static_cast<double>(columns);
  ReplaySample before;
  double hit_rate = 0;
  for (std::size_t i = 1; i <= columns; ++i) {
    const ReplaySample now =
        i == columns ? samples.back() : sample_until(samples, part_s * static_cast<double>(i));
    if (now.pages > before.pages) {
      hit_rate = static_cast<double>(now.pages_hit - before.pages_hit) /
                 static_cast<double>(now.pages - before.pages);
    }
    course.hit_rate.push_back(hit_rate);
    const auto moved = static_cast<double>(now.bytes_moved - before.bytes_moved);
    course.bytes_per_s.push_back(part_s > 0 ? moved / part_s : 0);
    before = now;
  }
  return course;
}

}  // namespace simm::bench
