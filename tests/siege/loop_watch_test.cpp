// LoopWatch itself: it sees a daemon that stands still, and nothing of one that has no CPU.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "tests/siege/loop_watch.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"

namespace simm::siege {
namespace loop_watch {

TEST_CASE("a control thread that stands still for 50 ms is seen") {
  const TwoTenantDaemon daemon;
  LoopWatch watch({&daemon});
  const auto has_asked = [&] { return watch.take_longest().asked > 0; };
  REQUIRE(test_support::eventually(has_asked));
  daemon.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  daemon.signal(SIGCONT);
  std::uint64_t longest_us = 0;
  REQUIRE(test_support::eventually([&] {
    longest_us = std::max(longest_us, watch.take_longest().control.us);
    return longest_us > 40'000;
  }));
}

}  // namespace loop_watch
}  // namespace simm::siege
