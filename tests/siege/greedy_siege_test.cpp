// A tenant that takes all it can get, dies with it, or just sits there in great numbers.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/siege/greedy_client.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace greed {

using test_support::RawClient;

TEST_CASE("a tenant that asks for a terabyte in an hour holds nobody up, nor does its death") {
  TwoTenantDaemon daemon;
  GreedyClient::put_object(daemon.red_socket());
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(3));
  GreedyClient greedy(daemon.red_socket());
  REQUIRE(greedy.has_pushed());
  CHECK(victim.does_rounds(100));
  CHECK(daemon.sessions_settled_to(2) == 2);
  greedy.kill();
  // Its gets had the better part of an hour left.
  CHECK(daemon.sessions_settled_to(1) == 1);
  CHECK(victim.does_rounds(100));
  victim.stop();
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
  CHECK(daemon.alive());
}

std::uint64_t resting(const TwoTenantDaemon& daemon) {
  std::uint64_t sum = 0;
  for (int agent = 0; agent < 64; ++agent) {
    sum += daemon.counter("session." + std::to_string(agent) + ".resting");
  }
  return sum;
}

TEST_CASE("sessions that ask for nothing cost nobody's turns, and are there when they ask") {
  constexpr std::uint32_t kIdle = 120;
  constexpr std::uint32_t kLanes = 16;
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(3));
  std::vector<RawClient> idle;
  for (std::uint32_t i = 0; i < kIdle; ++i) {
    idle.emplace_back(daemon.red_socket());
    REQUIRE(idle.back().attach(kLanes));
  }
  for (int tries = 0; tries < 20'000 && resting(daemon) < kIdle; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(resting(daemon) >= kIdle);
  CHECK(victim.does_rounds(100));
  for (std::uint32_t i = 0; i < kIdle; ++i) {
    ipc::ClientLane lane(idle[i].lane_memory(i % kLanes));
    REQUIRE(lane.push(ipc::Submission{}) == Status::ok);
    idle[i].ring();
    ipc::Completion done{};
    ipc::Poll polled = ipc::Poll::empty;
    for (int tries = 0; tries < 20'000 && polled == ipc::Poll::empty; ++tries) {
      polled = lane.poll_completion(done);
      if (polled == ipc::Poll::empty) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    REQUIRE(polled == ipc::Poll::taken);
  }
  CHECK(victim.does_rounds(100));
  victim.stop();
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
  CHECK(daemon.alive());
}

}  // namespace greed
}  // namespace simm::siege
