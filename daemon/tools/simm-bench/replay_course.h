// ReplayCourse: hit rate and throughput of a replay over its time.
// Thread: any; plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simm::bench {

// How far a replay was at one moment. All counts are since its start.
struct ReplaySample {
  double seconds = 0;
  std::uint64_t pages = 0;      // of one rank
  std::uint64_t pages_hit = 0;  // of the same one
  std::uint64_t bytes_moved = 0;
};

// Equal parts of the replay's time. The hit rate of a part counts the pages of that part; a part
// without any repeats the one before.
struct ReplayCourse {
  std::vector<double> hit_rate;
  std::vector<double> bytes_per_s;
};

inline constexpr std::size_t kCourseColumns = 60;

// Nothing where there are no samples.
ReplayCourse course_of(const std::vector<ReplaySample>& samples,
                       std::size_t columns = kCourseColumns);

}  // namespace simm::bench
