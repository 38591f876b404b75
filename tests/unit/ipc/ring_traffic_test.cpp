// Both ends at work at the same time, in two threads and in two processes, with every kind of
// sleeping on both sides. A lost wake-up is a hang, which the test program's deadline reports.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>

#include <thread>
#include <vector>

#include "ipc/wait_strategy.h"
#include "tests/unit/ipc/shared_lane.h"

namespace ring_traffic {

using namespace simm::ipc;

constexpr std::uint64_t kDeadlineNs = 60'000'000'000;

// The daemon's end: takes, answers, sleeps on the bell when there is nothing. Returns what it
// served, or 0 when something was wrong.
inline std::uint64_t serve(const shared_lane::SharedSession& memory, std::uint32_t lanes,
                           const BellSocket& bell, std::uint64_t count, bool sleeps) {
  DaemonSessionWords words(memory.header());
  std::vector<DaemonLane> ends;
  for (std::uint32_t i = 0; i < lanes; ++i) ends.emplace_back(memory.lane(i));
  std::uint64_t served = 0;
  const std::uint64_t deadline_ns = monotonic_now_ns() + kDeadlineNs;
  while (served < count) {
    bool worked = false;
    for (DaemonLane& lane : ends) {
      Submission s{};
      const Poll poll = lane.poll_submission(s);
      if (poll == Poll::broken) return 0;
      if (poll == Poll::empty) continue;
      if (!shared_lane::is_whole(s)) return 0;
      lane.write_result(static_cast<std::uint32_t>(s.token % kPageSlots), {0, 0, s.token});
      if (lane.publish_completion(shared_lane::completion(s.token)) == Wake::bell) bell.ring();
      ++served;
      worked = true;
    }
    if (worked) continue;
    if (monotonic_now_ns() > deadline_ns) return 0;
    if (!sleeps) continue;
    words.announce_sleep();
    bool pending = false;
    for (const DaemonLane& lane : ends) pending = pending || lane.has_submissions();
    pollfd item{bell.fd(), POLLIN, 0};
    if (!pending && ::poll(&item, 1, 20'000) == 0) return 0;
    words.withdraw_sleep();
    bell.drain();
  }
  return served;
}

// The client's end of one lane: `count` requests in bursts, each answer checked.
inline bool drive(const shared_lane::SharedSession& memory, ClientSessionWords& words,
                  std::uint32_t lane_index, const BellSocket& bell, std::uint64_t count,
                  WaitMode mode) {
  ClientLane lane(memory.lane(lane_index));
  WaitStrategy wait(mode);
  std::uint64_t pushed = 0;
  std::uint64_t finished = 0;
  while (finished < count) {
    for (std::uint64_t burst = pushed % 5 + 1; burst > 0 && pushed < count; --burst) {
      if (lane.push(shared_lane::submission(pushed)) != simm::Status::ok) break;
      ++pushed;
      words.ring_if_sleeping(bell);
    }
    if (wait.wait(lane, words, monotonic_now_ns() + kDeadlineNs / 3) != simm::Status::ok) {
      return false;
    }
    Completion c{};
    while (lane.poll_completion(c) == Poll::taken) {
      PageResult r{};
      if (!shared_lane::is_whole(c) || c.token != finished ||
          lane.read_result(static_cast<std::uint32_t>(c.token % kPageSlots), r) !=
              simm::Status::ok ||
          r.bytes != c.token) {
        return false;
      }
      ++finished;
    }
    if (lane.broken()) return false;
  }
  return true;
}

TEST_CASE("threads: nothing is lost, torn, doubled or left asleep in any wait mode") {
  for (const WaitMode mode : {WaitMode::spin, WaitMode::adaptive, WaitMode::event}) {
    for (const bool daemon_sleeps : {false, true}) {
      shared_lane::SharedSession memory(2);
      auto bells = BellSocket::make_pair();
      REQUIRE(bells);
      // Two ends that only spin share a small machine badly: fewer rounds for them.
      const std::uint64_t count = shared_lane::scaled(mode == WaitMode::event ? 4000 : 1500);
      ClientSessionWords words(memory.header());
      bool first = false;
      bool second = false;
      std::thread a([&] { first = drive(memory, words, 0, bells->second, count, mode); });
      std::thread b([&] { second = drive(memory, words, 1, bells->second, count, mode); });
      CHECK(serve(memory, 2, bells->first, 2 * count, daemon_sleeps) == 2 * count);
      a.join();
      b.join();
      CHECK(first);
      CHECK(second);
    }
  }
}

TEST_CASE("processes: a forked client sees the same over shared memory") {
  for (const WaitMode mode : {WaitMode::adaptive, WaitMode::event}) {
    shared_lane::SharedSession memory;
    auto bells = BellSocket::make_pair();
    REQUIRE(bells);
    const std::uint64_t count = shared_lane::scaled(10'000);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ClientSessionWords words(memory.header());
      ::_exit(drive(memory, words, 0, bells->second, count, mode) ? 0 : 1);
    }
    CHECK(serve(memory, 1, bells->first, count, true) == count);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

}  // namespace ring_traffic
