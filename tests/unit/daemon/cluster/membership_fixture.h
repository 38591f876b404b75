// A membership on a clock that the test turns. Thread: the test's.
#pragma once

#include <algorithm>
#include <string>

#include "daemon/base/manual_clock.h"
#include "daemon/cluster/membership.h"
#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace membership_test {

using namespace cluster_samples;
using Kind = JoinVerdict::Kind;
using base::kNsPerMs;
using base::kNsPerSecond;

inline Join join_of(std::uint64_t weight_bytes = kGiB) {
  return Join{weight_bytes > 0 ? "10.0.0.7" : "", 30002, 2, weight_bytes, 0, false};
}

inline DaemonIdentity storage(const std::string& name, std::uint64_t number) {
  return {incarnation(number), ClusterRole::storage, name};
}

struct Fixture {
  Fixture() = default;
  explicit Fixture(const MembershipConfig& other) : config(other) {}

  base::ManualClock clock;
  MembershipConfig config;
  Membership membership{config, clock};

  Kind join(ConnectionId connection, const DaemonIdentity& identity, const Join& join = join_of()) {
    return membership.join(connection, identity, join).kind;
  }
  // In turns, as a manager has them.
  void pass(base::TimeNs ns) {
    for (base::TimeNs step_ns = 0; ns > 0; ns -= step_ns) {
      step_ns = std::min<base::TimeNs>(ns, 100 * kNsPerMs);
      clock.advance_ns(step_ns);
      membership.tick(nullptr);
    }
  }
  // Without a turn: the manager was stopped.
  void stop_for(base::TimeNs ns) {
    clock.advance_ns(ns);
    membership.tick(nullptr);
  }
  std::string state(const std::string& name) {
    const auto found = membership.members().find("storage/" + name);
    return found == membership.members().end() ? "" : member_state_name(found->second.state);
  }
  std::size_t owners() { return membership.owners().size(); }
};

// One that goes on between two looks at it, as real clocks do.
struct RunningClock final : base::Clock {
  base::TimeNs now_ns() const noexcept override { return now += 1000; }
  mutable base::TimeNs now = kNsPerSecond;
};

}  // namespace membership_test
