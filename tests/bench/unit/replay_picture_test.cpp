#include "daemon/tools/simm-bench/replay_picture.h"

#include <doctest/doctest.h>

namespace simm::bench::replay_picture_test {

ReplaySummary summary() {
  ReplaySummary summary;
  summary.model = "a";
  // A second without hits, one in which half of the pages hit, one in which nothing is looked up.
  summary.samples = {{0.5, 5, 0, 50}, {1, 10, 0, 100}, {2, 30, 10, 500}, {3, 30, 10, 500}};
  summary.fetch_ns = {3'000, 3'500, 900'000};
  return summary;
}

TEST_CASE("the course of a replay has the hit rate and the bytes of each part of its time") {
  const ReplayCourse course = course_of(summary().samples, 3);
  CHECK(course.hit_rate == std::vector<double>{0, 0.5, 0.5});
  CHECK(course.bytes_per_s == std::vector<double>{100, 400, 0});
  CHECK(course_of({}, 3).hit_rate.empty());
}

TEST_CASE("bars have eight heights, and none above the top") {
  CHECK(bars_of({0, 0.5, 1, 7}, 1) == " ▄██");
  CHECK(bars_of({3}, 0) == " ");
}

TEST_CASE("the picture has a line for each power of two that fetches took") {
  const std::string picture = replay_picture({summary()});
  CHECK(picture.find("a, over 3.0 s") != std::string::npos);
  CHECK(picture.find("<         4 us  66.7 %") != std::string::npos);
  CHECK(picture.find("<         8 us   0.0 %") != std::string::npos);
  CHECK(picture.find("<      1024 us  33.3 %") != std::string::npos);
  CHECK(picture.find("<         2 us") == std::string::npos);
  CHECK(picture.find("<      2048 us") == std::string::npos);
  CHECK(replay_picture({ReplaySummary{}}).empty());
}

}  // namespace simm::bench::replay_picture_test
