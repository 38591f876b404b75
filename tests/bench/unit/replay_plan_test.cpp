#include "daemon/tools/simm-bench/replay_plan.h"

#include <doctest/doctest.h>

#include <set>

#include "daemon/tools/simm-bench/trace_generator.h"
#include "daemon/tools/simm-bench/trace_statistics.h"

namespace simm::bench::replay_plan_test {

constexpr std::uint64_t kBigPool = 1ull << 50;

TEST_CASE("only whole pages are cached, never more than there are blocks") {
  CHECK(pages_of({0, 63, 1, {0}}) == 0);
  CHECK(pages_of({0, 64, 1, {0}}) == 1);
  CHECK(pages_of({0, 1'100, 1, {0, 1, 2}}) == 17);
  CHECK(pages_of({0, 99'999, 1, {0, 1}}) == 16);
}

TEST_CASE("a small trace, by hand") {
  Trace trace;
  trace.push_back({0, 1'100, 1, {0, 1, 2}});  // 17 pages: 8 + 8 + 1
  trace.push_back({0, 1'100, 1, {0, 1, 3}});  // 16 of them known
  trace.push_back({0, 1'536, 1, {0, 1, 2}});  // 24 pages; of block 2 one page is known
  const ReplayPlan mla = plan_replay(trace, kDeepSeekR1, 4, kBigPool, 512);
  CHECK(mla.pages == 17 + 17 + 24);
  CHECK(mla.best_pages_hit == 16 + 17);
  CHECK(mla.object_bytes == 8'784);
  CHECK(mla.unique_bytes == (17 + 1 + 7) * 8'784);
  CHECK(mla.fetch_calls_max == 3);
  const ReplayPlan mha = plan_replay(trace, kLlama70b, 4, kBigPool, 512);
  CHECK(mha.pages == mla.pages);
  CHECK(mha.unique_bytes == (17 + 1 + 7) * 2'560 * 2 * 4);
}

TEST_CASE("a known block behind an unknown one is no hit") {
  Trace trace;
  trace.push_back({0, 1'024, 1, {0, 9}});
  trace.push_back({0, 1'536, 1, {0, 8, 9}});
  CHECK(plan_replay(trace, kDeepSeekR1, 1, kBigPool, 512).best_pages_hit == 8);
}

TEST_CASE("the best hit rate of pages is about that of blocks") {
  const Trace trace = generate_trace({4, 4'000});
  const ReplayPlan plan = plan_replay(trace, kLlama70b, 2, kBigPool, 256);
  const double pages = static_cast<double>(plan.best_pages_hit) / static_cast<double>(plan.pages);
  CHECK(pages == doctest::Approx(statistics_of(trace).best_hit_rate).epsilon(0.05));
}

TEST_CASE("pages are scaled down until the pool holds an eighth of what is unique") {
  const Trace trace = generate_trace({4, 2'000});
  for (const std::uint64_t pool : {64ull << 20, 512ull << 20, 4ull << 30}) {
    const ReplayPlan plan = plan_replay(trace, kDeepSeekR1, 4, pool, 0);
    CHECK(plan.scale >= 256);
    CHECK((plan.unique_bytes <= 8 * pool || plan.object_bytes < 1'024));
    if (plan.scale > 256) {
      CHECK(plan_replay(trace, kDeepSeekR1, 4, pool, plan.scale / 2).unique_bytes > 8 * pool);
    }
  }
}

TEST_CASE("keys look like an engine's and differ wherever something differs") {
  std::set<std::string> seen;
  std::size_t made = 0;
  for (const WorkloadModel& model : {kDeepSeekR1, kLlama70b}) {
    for (std::uint64_t block : {0ull, 1ull, 77ull}) {
      for (std::uint64_t page = 0; page < kPagesPerBlock; ++page) {
        std::vector<std::string> keys;
        append_page_keys(model, block, page, 3, keys);
        CHECK(keys.size() == model.objects_per_page);
        for (const std::string& key : keys) {
          CHECK(key.find_first_not_of("0123456789abcdef") == 64);
          seen.insert(key);
        }
        made += keys.size();
      }
    }
  }
  CHECK(seen.size() == made);
  std::vector<std::string> mla;
  append_page_keys(kDeepSeekR1, 5, 6, 0, mla);
  append_page_keys(kDeepSeekR1, 5, 6, 1, mla);
  CHECK(mla[0] == mla[1]);  // ranks of an MLA model read the same object
  CHECK(mla[0].substr(64) == "__k");
  std::vector<std::string> mha;
  append_page_keys(kLlama70b, 5, 6, 1, mha);
  CHECK(mha[0].substr(64) == "_1_k");
  CHECK(mha[1].substr(64) == "_1_v");
}

TEST_CASE("models by name") {
  CHECK(models_named("both").value().size() == 2);
  CHECK(std::string(models_named("llama-70b").value().front().name) == "llama-70b");
  CHECK(models_named("gpt").status() == Status::invalid_argument);
}

}  // namespace simm::bench::replay_plan_test
