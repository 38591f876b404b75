// The threads of a recovery: each part is worked on once, and what one of them throws reaches the
// caller.
#include "daemon/store/pool/recovery_crew.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <latch>
#include <new>
#include <thread>

namespace recovery_crew_test {

using simm::store::RecoveryCrew;

// Both threads are in their parts at the same time.
constexpr std::size_t kParts = 2;

}  // namespace recovery_crew_test

TEST_CASE("a crew works on each part once") {
  using namespace recovery_crew_test;
  RecoveryCrew crew(4);
  std::array<std::atomic<int>, 100> calls{};
  crew.run(calls.size(), [&](std::size_t part) { ++calls[part]; });
  for (const auto& count : calls) CHECK(count == 1);
}

TEST_CASE("memory that ends on a thread of the crew is an error of its caller") {
  using namespace recovery_crew_test;
  for (const bool fails_here : {false, true}) {
    CAPTURE(fails_here);
    RecoveryCrew crew(kParts);
    const std::thread::id here = std::this_thread::get_id();
    std::latch all_in(kParts);
    std::atomic<int> ended{0};
    const auto work = [&](std::size_t) {
      all_in.arrive_and_wait();
      if ((std::this_thread::get_id() == here) == fails_here) throw std::bad_alloc();
      ++ended;
    };
    CHECK_THROWS_AS(crew.run(kParts, work), std::bad_alloc);
    CHECK(ended == 1);
  }
}

TEST_CASE("parts that were not begun when one failed are left out") {
  using namespace recovery_crew_test;
  RecoveryCrew alone(1);
  int begun = 0;
  CHECK_THROWS_AS(alone.run(3,
                            [&](std::size_t) {
                              ++begun;
                              throw std::bad_alloc();
                            }),
                  std::bad_alloc);
  CHECK(begun == 1);
}
