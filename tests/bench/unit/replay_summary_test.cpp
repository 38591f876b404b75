#include "daemon/tools/simm-bench/replay_summary.h"

#include <doctest/doctest.h>

namespace simm::bench::replay_summary_test {

ReplaySummary summary_of(const char* model, std::uint64_t pages_hit, std::uint64_t bytes_wrong) {
  ReplaySummary summary;
  summary.model = model;
  summary.requests = 10;
  summary.pages = 100;
  summary.pages_hit = pages_hit;
  summary.best_pages_hit = 50;
  summary.bytes_wrong = bytes_wrong;
  summary.fetch_ns = {1'000, 2'000, 9'000};
  return summary;
}

TEST_CASE("the last line adds the models up") {
  const nlohmann::json total = total_of({summary_of("a", 40, 0), summary_of("b", 20, 3)});
  CHECK(total["requests"] == 20);
  CHECK(total["hit_rate"].get<double>() == doctest::Approx(0.3));
  CHECK(total["best_hit_rate"].get<double>() == doctest::Approx(0.5));
  CHECK(total["bytes_wrong"] == 3);
  CHECK(total["fetch_p50_us"].get<double>() == doctest::Approx(2));
  CHECK(total["models"].size() == 2);
  CHECK(total["models"][1]["model"] == "b");
  for (const char* field : {"bytes_stored", "bytes_fetched", "bytes_verified", "fetch_p99_us"}) {
    CHECK(total.contains(field));
  }
}

TEST_CASE("the table has a column per model") {
  const std::string table = replay_table({summary_of("a", 40, 0), summary_of("b", 20, 3)});
  CHECK(table.find("40.00 %") != std::string::npos);
  CHECK(table.find("20.00 %") != std::string::npos);
}

}  // namespace simm::bench::replay_summary_test
