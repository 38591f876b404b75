#include "ipc/wait_strategy.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/unit/ipc/shared_lane.h"

namespace wait_strategy_test {

// Time that passes only by being looked at: 1 us for each look.
std::uint64_t fake_now_ns = 0;
std::uint64_t fake_now() noexcept {
  return fake_now_ns += 1000;
}

struct Rig {
  shared_lane::SharedSession memory;
  simm::ipc::DaemonLane daemon{memory.lane()};
  simm::ipc::ClientLane client{memory.lane()};
  simm::ipc::ClientSessionWords session{memory.header()};
  simm::ipc::DaemonSessionWords daemon_session{memory.header()};

  void request() { CHECK(client.push(shared_lane::submission(1)) == simm::Status::ok); }
  simm::ipc::Wake answer() {
    simm::ipc::Submission s{};
    CHECK(daemon.poll_submission(s) == simm::ipc::Poll::taken);
    return daemon.publish_completion(shared_lane::completion(1));
  }
  void take() {
    simm::ipc::Completion c{};
    CHECK(client.poll_completion(c) == simm::ipc::Poll::taken);
  }
};

}  // namespace wait_strategy_test

using simm::Status;
using simm::ipc::ClientLane;
using simm::ipc::monotonic_now_ns;
using simm::ipc::WaitMode;
using simm::ipc::WaitStrategy;
using wait_strategy_test::Rig;

TEST_CASE(
    "every mode answers ok at once when a completion is there, and times out when none comes") {
  for (const WaitMode mode : {WaitMode::spin, WaitMode::adaptive, WaitMode::event}) {
    Rig rig;
    WaitStrategy wait(mode);
    rig.request();
    CHECK(wait.wait(rig.client, rig.session, monotonic_now_ns() + 2'000'000) == Status::timeout);
    CHECK(wait.wait(rig.client, rig.session, 1) == Status::timeout);
    // The announcement was taken back: the daemon wakes nobody.
    CHECK(rig.answer() == simm::ipc::Wake::none);
    CHECK(wait.wait(rig.client, rig.session, 1) == Status::ok);
  }
}

TEST_CASE("a waiter learns that its session is poisoned or its daemon is gone") {
  for (const WaitMode mode : {WaitMode::spin, WaitMode::adaptive, WaitMode::event}) {
    for (const bool poisoned : {true, false}) {
      Rig rig;
      rig.request();
      std::thread other([&] {
        if (poisoned) {
          rig.daemon_session.publish_poisoned(simm::ipc::PoisonReason::bad_submission);
          CHECK(rig.daemon.wake_client() != simm::ipc::Wake::bell);
        } else {
          rig.session.mark_lost();
          rig.client.interrupt();
        }
      });
      WaitStrategy wait(mode);
      CHECK(wait.wait(rig.client, rig.session, simm::ipc::kNoDeadlineNs) ==
            (poisoned ? Status::poisoned : Status::unreachable));
      other.join();
    }
  }
}

TEST_CASE("what completed before the end of the session is still delivered") {
  Rig rig;
  rig.request();
  CHECK(rig.answer() == simm::ipc::Wake::none);
  rig.daemon_session.publish_poisoned(simm::ipc::PoisonReason::region_fault);
  WaitStrategy wait(WaitMode::event);
  CHECK(wait.wait(rig.client, rig.session, simm::ipc::kNoDeadlineNs) == Status::ok);
}

TEST_CASE(
    "the spin budget shrinks to nothing when answers come only after sleeping, and recovers") {
  using wait_strategy_test::fake_now;
  using wait_strategy_test::fake_now_ns;
  fake_now_ns = 0;
  Rig rig;
  WaitStrategy wait(WaitMode::adaptive, &fake_now);
  CHECK(wait.spin_budget_ns() == simm::ipc::SpinBudget::kSpinMaxNs);
  rig.request();
  for (int i = 0; i < 10; ++i) {
    // Deadline in the past of the real clock, in the future of the fake one: sleeps end at once.
    CHECK(wait.wait(rig.client, rig.session, 500'000'000) == Status::timeout);
  }
  CHECK(wait.spin_budget_ns() == 0);
  const std::uint64_t before_ns = fake_now_ns;
  CHECK(wait.wait(rig.client, rig.session, 500'000'000) == Status::timeout);
  CHECK(fake_now_ns == before_ns);  // not a single look: it went to sleep directly

  // A peer that answers while the client spins: only a probe can notice, and it does.
  std::atomic<bool> stop{false};
  CHECK(rig.answer() == simm::ipc::Wake::none);
  rig.take();
  std::thread peer([&] {
    simm::ipc::Submission s{};
    while (!stop.load()) {
      if (rig.daemon.poll_submission(s) == simm::ipc::Poll::taken) {
        static_cast<void>(rig.daemon.publish_completion(shared_lane::completion(s.token)));
      }
    }
  });
  WaitStrategy real(WaitMode::adaptive);
  for (int i = 0; i < 2000; ++i) {
    rig.request();
    REQUIRE(real.wait(rig.client, rig.session, simm::ipc::kNoDeadlineNs) == Status::ok);
    rig.take();
  }
  stop = true;
  peer.join();
}
