// Bytes a second of a tenant, in virtual time: what it may take, what waits and what does not.
#include "daemon/session/tenant_bandwidth.h"

#include <memory>

#include "tests/unit/daemon/session/session_rig.h"

namespace tenant_bandwidth_test {

using namespace session_rig;
using ipc::Opcode;
using session::HeldFor;
using session::TenantBandwidth;
using session::TenantTraffic;

constexpr std::uint64_t kLimit = 100'000'000;  // bytes a second
constexpr std::uint64_t kPage = 64 * 1024;
constexpr base::TimeNs kStepNs = 100'000;
constexpr std::uint64_t kBurst = kLimit / 100;  // of TenantBandwidth::kBurstNs

std::uint64_t held(const TenantTraffic& traffic, HeldFor what) {
  return traffic.held[static_cast<std::size_t>(what)].value();
}

// A daemon agent with a tenant of a limit, and one without.
struct Agent {
  explicit Agent(TenantBandwidth& limit)
      : rig(64), red(client(1, &limit, red_traffic)), blue(client(2, nullptr, blue_traffic)) {
    rig.clock.advance_ns(base::kNsPerSecond);
  }
  Client& client(std::uint64_t tenant, TenantBandwidth* limit, TenantTraffic& traffic) {
    session::SessionConfig config = Rig::config(tenant, tenant);
    config.tenant_bytes_max = std::uint64_t{1} << 40;
    config.tenant_operations_max = 32;
    config.bandwidth = limit;
    config.traffic = &traffic;
    return rig.attach(config);
  }
  // Always some to take, for so long.
  void run(base::TimeNs time_ns) {
    ipc::Completion done{};
    for (const base::TimeNs end_ns = rig.clock.now_ns() + time_ns; rig.clock.now_ns() < end_ns;) {
      for (Client* const one : {&red, &blue}) {
        while (one->lanes[0].unfinished() < 8) push(*one, Opcode::put, 1, kPage);
      }
      rig.set->do_work();
      rig.engine.complete_all();
      for (Client* const one : {&red, &blue}) {
        while (one->lanes[0].poll_completion(done) == ipc::Poll::taken) {
        }
      }
      rig.clock.advance_ns(kStepNs);
    }
  }

  Rig rig;
  TenantTraffic red_traffic;
  TenantTraffic blue_traffic;
  Client& red;
  Client& blue;
};

TEST_CASE("bandwidth: a tenant moves what it may, and others all they want") {
  TenantBandwidth limit(kLimit);
  Agent agent(limit);
  agent.run(base::kNsPerSecond);
  const std::uint64_t moved = agent.red_traffic.put_bytes.value();
  CHECK(moved > kLimit * 99 / 100);
  CHECK(moved < kLimit + kBurst + 2 * kPage);
  // 8 in each turn.
  CHECK(agent.blue_traffic.put_bytes.value() == 10'000 * 8 * kPage);
  CHECK(held(agent.red_traffic, HeldFor::bandwidth) > 100);
  CHECK(held(agent.blue_traffic, HeldFor::bandwidth) == 0);
  CHECK(agent.rig.counters.value("session.held_bandwidth") ==
        held(agent.red_traffic, HeldFor::bandwidth));
}

TEST_CASE("bandwidth: all agents share one limit") {
  TenantBandwidth limit(kLimit);
  Agent one(limit);
  Agent other(limit);
  other.rig.clock.advance_ns(kStepNs / 2);
  for (int i = 0; i < 10'000; ++i) {
    one.run(kStepNs);
    other.run(kStepNs);
  }
  const std::uint64_t first = one.red_traffic.put_bytes.value();
  const std::uint64_t second = other.red_traffic.put_bytes.value();
  CHECK(first + second > kLimit * 99 / 100);
  CHECK(first + second < kLimit + kBurst + 6 * kPage);
  CHECK(std::min(first, second) > kLimit * 45 / 100);
}

TEST_CASE("bandwidth: what waits holds nothing, and its agent sleeps until it may go on") {
  TenantBandwidth limit(kLimit);
  Agent agent(limit);
  Rig& rig = agent.rig;
  push(agent.red, Opcode::put, 1, 1 << 20);  // 10.5 ms
  rig.set->do_work();
  rig.engine.complete_all();
  push(agent.red, Opcode::put, 1, kPage);
  push(agent.red, Opcode::put, 1, kPage);
  rig.set->do_work();
  CHECK(rig.engine.free_count() == 64);
  CHECK(held(agent.red_traffic, HeldFor::bandwidth) == 1);
  CHECK(rig.set->do_work() == 0);
  constexpr base::TimeNs kWaitNs = (std::uint64_t{1} << 20) * 10 - TenantBandwidth::kBurstNs;
  CHECK(rig.set->next_deadline_ns() == rig.clock.now_ns() + kWaitNs);
  push(agent.blue, Opcode::get, 1, kPage);
  CHECK(rig.set->do_work() == 1);
  rig.engine.complete_all();
  take(agent.blue);
  take(agent.red);
  // Then it goes.
  rig.clock.advance_ns(kWaitNs - 1);
  CHECK(rig.set->do_work() == 0);
  rig.clock.advance_ns(1);
  CHECK(rig.set->do_work() > 0);
  CHECK(rig.engine.submitted.size() >= 1);
}

TEST_CASE("bandwidth: a long submission goes alone, and is paid off before the next one") {
  TenantBandwidth limit(kLimit);
  Agent agent(limit);
  Rig& rig = agent.rig;
  push(agent.red, Opcode::put, 16, kPage);
  for (int i = 0; i < 10; ++i) push(agent.red, Opcode::put, 16, kPage);
  std::uint64_t taken = 0;
  for (int ms = 0; ms < 60; ++ms) {
    rig.set->do_work();
    taken += rig.engine.submitted.size();
    rig.engine.complete_all();
    rig.clock.advance_ns(base::kNsPerMs);
  }
  // 60 ms and the burst are 7 MB.
  CHECK(taken == 7);
}

TEST_CASE(
    "bandwidth: a submission without bytes does not wait, and a deadline ends one that does") {
  TenantBandwidth limit(kLimit);
  Agent agent(limit);
  Rig& rig = agent.rig;
  session::SessionConfig config = Rig::config(3, 1);
  config.bandwidth = &limit;
  Client& asking = rig.attach(config);
  push(agent.red, Opcode::put, 16, 1 << 16);
  push(agent.red, Opcode::put, 16, 1 << 16);
  rig.set->do_work();
  REQUIRE(rig.engine.submitted.size() == 1);
  ipc::Submission late = submission(Opcode::put, 1, 7);
  late.timeout_ns = base::kNsPerMs * 2 / 5;
  rig.engine.complete_all();
  REQUIRE(asking.lanes[0].write_page(0, page(asking, 0, kPage)) == Status::ok);
  REQUIRE(asking.lanes[0].write_key(0, "key00000", 8) == Status::ok);
  REQUIRE(asking.lanes[0].push(late) == Status::ok);
  rig.set->do_work();
  CHECK(rig.engine.submitted.empty());
  CHECK(rig.set->next_deadline_ns() == rig.clock.now_ns() + base::kNsPerMs * 2 / 5);
  rig.clock.advance_ns(base::kNsPerMs * 2 / 5);
  rig.set->do_work();
  const ipc::Completion ended = take(asking);
  CHECK(ended.token == 7);
  CHECK(ended.status == static_cast<std::int32_t>(Status::timeout));
  push(asking, Opcode::exists, 1, 8);
  rig.set->do_work();
  CHECK(rig.engine.submitted.size() == 1);
}

TEST_CASE("bandwidth: what was not there costs nothing, what was given up costs all") {
  for (const Status status : {Status::not_found, Status::timeout}) {
    TenantBandwidth limit(kLimit);
    Agent agent(limit);
    Rig& rig = agent.rig;
    std::uint64_t taken = 0;
    for (int i = 0; i < 100; ++i) {
      push(agent.red, Opcode::get, 16, kPage);
      rig.set->do_work();
      taken += rig.engine.submitted.size();
      rig.engine.complete_all(status);
      if (taken <= static_cast<std::uint64_t>(i)) break;
      take(agent.red);
    }
    CHECK(taken == (status == Status::not_found ? 100 : 1));
    CHECK(agent.red_traffic.got_bytes.value() == 0);
  }
}

}  // namespace tenant_bandwidth_test
