#include "daemon/tools/simm-bench/process_group.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include "daemon/tools/simm-bench/subprocess.h"
#include "daemon/tools/simm-bench/worker_pool.h"

namespace simm::bench::process_group_test {

TEST_CASE("workers of all processes and threads hand back their samples, in order") {
  const auto samples = run_workers({2, 3, 4, false}, [](Worker& worker) -> Outcome {
    worker.line_up();
    for (std::uint64_t i = 0; i < 6; ++i) worker.record(100 * worker.index() + i);
    return Done{};
  });
  REQUIRE(samples);
  REQUIRE(samples->size() == 6);
  for (std::uint64_t worker = 0; worker < 6; ++worker) {
    // Room for four was asked for: the rest is dropped.
    CHECK(samples->at(worker) == std::vector<std::uint64_t>{100 * worker, 100 * worker + 1,
                                                            100 * worker + 2, 100 * worker + 3});
  }
}

TEST_CASE("a worker that fails or dies ends everybody, also those at the start line") {
  for (const unsigned threads : {1u, 3u}) {
    const auto failed = run_workers({3, threads, 1, false}, [](Worker& worker) -> Outcome {
      if (worker.index() == 1) return Error{Status::no_space, "worker one is unwell"};
      worker.line_up();
      return Done{};
    });
    REQUIRE_FALSE(failed);
    CHECK(failed.status() == Status::no_space);
    CHECK(failed.error().context == "worker 1: worker one is unwell");
  }
  const auto died = run_workers({2, 1, 1, false}, [](Worker& worker) -> Outcome {
    if (worker.index() == 1) kill(getpid(), SIGKILL);
    worker.line_up();
    return Done{};
  });
  CHECK_FALSE(died);
}

TEST_CASE("ranks of samples") {
  std::vector<std::uint64_t> samples = {5, 1, 4, 2, 3};
  CHECK(sample_at(samples, 0) == 1);
  CHECK(sample_at(samples, 0.5) == 3);
  CHECK(sample_at(samples, 1) == 5);
  std::vector<std::uint64_t> none;
  CHECK(sample_at(none, 0.5) == 0);
  CHECK(merge({{1, 2}, {}, {3}}) == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("a program's JSON is parsed; a missing, failing or chatty one is an error in words") {
  const auto value = run_json({"/bin/echo", "{\"a\": 1}"});
  REQUIRE(value);
  CHECK((*value)["a"] == 1);
  CHECK(run_json({"/bin/echo", "hello"}).error().context.find("hello") != std::string::npos);
  CHECK(run_json({"/bin/false"}).error().context.find("/bin/false") == 0);
  const auto missing = run_json({"/nonexistent/program"});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().context.find("/nonexistent/program") == 0);
}

}  // namespace simm::bench::process_group_test
