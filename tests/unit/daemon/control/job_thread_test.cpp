#include "daemon/control/job_thread.h"

#include <doctest/doctest.h>

#include <future>
#include <vector>

namespace job_thread_test {

using simm::control::JobThread;

constexpr std::uint64_t kRed = 1;
constexpr std::uint64_t kBlue = 2;

// Keeps the thread busy until let_go(), so that a test decides what waits meanwhile.
class Holdup {
public:
  explicit Holdup(JobThread& thread, std::uint64_t tenant = 0) {
    const bool taken = thread.submit(
        [this] {
          begun_.set_value();
          go_.get_future().wait();
        },
        tenant);
    REQUIRE(taken);
    begun_.get_future().wait();
  }
  void let_go() { go_.set_value(); }

private:
  std::promise<void> begun_;
  std::promise<void> go_;
};

TEST_CASE("a tenant with many jobs lets another one's job wait for one of them") {
  JobThread thread("test-jobs", 8);
  thread.start();
  std::vector<std::uint64_t> ran;
  const auto job_of = [&ran](std::uint64_t tenant) {
    return [&ran, tenant] { ran.push_back(tenant); };
  };
  Holdup holdup(thread);
  for (int i = 0; i < 5; ++i) REQUIRE(thread.submit(job_of(kRed), kRed));
  REQUIRE(thread.submit(job_of(kBlue), kBlue));
  REQUIRE(thread.submit(job_of(kBlue), kBlue));
  holdup.let_go();
  thread.stop();
  CHECK(ran == std::vector{kRed, kBlue, kRed, kBlue, kRed, kRed, kRed});
}

TEST_CASE("a tenant with a thread of its own waits for no job of another one") {
  JobThread thread("test-jobs", 2);
  thread.start(std::vector{kRed, kBlue});
  Holdup red(thread, kRed);
  Holdup everybody(thread);
  int ran = 0;
  REQUIRE(thread.submit([&] { ++ran; }, kRed));
  REQUIRE(thread.submit([&] { ++ran; }, kRed));
  CHECK_FALSE(thread.submit([&] { ++ran; }, kRed));
  for (int i = 0; i < 5; ++i) {
    std::promise<void> done;
    thread.submit_release([&] { done.set_value(); }, kBlue);
    done.get_future().wait();  // for ever, if blue waits for red
  }
  CHECK(ran == 0);
  red.let_go();
  everybody.let_go();
  thread.stop();
  CHECK(ran == 2);
}

TEST_CASE("a tenant with a full queue is refused, another is not, and releases always fit") {
  JobThread thread("test-jobs", 2);
  thread.start();
  int ran = 0;
  const auto job = [&ran] { ++ran; };
  Holdup holdup(thread);
  CHECK(thread.submit(job, kRed));
  CHECK(thread.submit(job, kRed));
  CHECK_FALSE(thread.submit(job, kRed));
  thread.submit_release(job, kRed);
  CHECK(thread.submit(job, kBlue));
  holdup.let_go();
  thread.stop();
  CHECK(ran == 4);
  CHECK_FALSE(thread.submit(job, kBlue));
  thread.submit_release(job, kBlue);  // at once, here
  CHECK(ran == 5);
}

}  // namespace job_thread_test
