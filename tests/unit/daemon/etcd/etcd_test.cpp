// The gateway, the election and the coordinator against real etcd members: killed, stopped, cut off
// from their quorum, with passwords, with the keys of others.
#include <doctest/doctest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/base/real_clock.h"
#include "daemon/etcd/etcd_coordinator.h"
#include "tests/support/etcd_process.h"
#include "tests/support/eventually.h"

namespace etcd_test {

using simm::Status;
using simm::base::RealClock;
using simm::cluster::StoredState;
using simm::etcd::EtcdCondition;
using simm::etcd::EtcdConfig;
using simm::etcd::EtcdCoordinator;
using simm::etcd::EtcdGateway;
using simm::test_support::EtcdProcess;
using simm::test_support::eventually;

constexpr auto kMade = EtcdCondition::What::created;
constexpr auto kChanged = EtcdCondition::What::modified;

// Where no member stands still, nothing is about time, and the machine may be busy.
constexpr simm::base::TimeNs kPatientNs = 60 * simm::base::kNsPerSecond;

EtcdConfig config_of(const std::vector<std::string>& endpoints,
                     simm::base::TimeNs call_ns = kPatientNs) {
  EtcdConfig config;
  config.call_ns = call_ns;
  for (const std::string& text : endpoints) {
    config.endpoints.push_back(simm::http::HttpEndpoint::parse(text).value());
  }
  return config;
}

std::unique_ptr<EtcdGateway> gateway_of(const EtcdProcess& etcd,
                                        simm::base::TimeNs call_ns = kPatientNs) {
  return EtcdGateway::make(config_of(etcd.endpoints(), call_ns)).value();
}

struct Candidate {
  Candidate(const EtcdProcess& etcd, const std::string& name,
            simm::base::TimeNs call_ns = kPatientNs)
      : coordinator(gateway_of(etcd, call_ns), clock, "c", name + " at 127.0.0.1:1") {
    coordinator.start([] {});
  }
  [[nodiscard]] bool leads() const { return coordinator.leadership().leads; }

  const RealClock clock;
  EtcdCoordinator coordinator;
};

StoredState state_of(simm::base::Epoch epoch) {
  return {epoch, std::vector<std::byte>(100, static_cast<std::byte>(epoch))};
}

}  // namespace etcd_test

TEST_CASE("etcd gateway: puts happen when their conditions are met, and leases end") {
  using namespace etcd_test;
  const EtcdProcess etcd;
  const auto gateway = gateway_of(etcd);
  CHECK_FALSE(gateway->get("/a")->has_value());
  const std::string bytes("\0\xff\x01 \"", 5);
  const std::int64_t made = gateway->put_if({{"/a", kMade, 0}}, {"/a", bytes}).value();
  REQUIRE(made > 0);
  CHECK(gateway->put_if({{"/a", kMade, 0}}, {"/a", "x"}).value() == 0);
  CHECK(gateway->get("/a")->value().bytes == bytes);
  CHECK(gateway->get("/a")->value().created == made);
  CHECK(gateway->put_if({{"/a", kChanged, made}, {"/b", kMade, 7}}, {"/a", "x"}).value() == 0);
  const std::int64_t changed =
      gateway->put_if({{"/a", kChanged, made}, {"/a", kMade, made}}, {"/a", ""}).value();
  CHECK(changed > made);
  CHECK(gateway->get("/a")->value().modified == changed);
  CHECK(gateway->get("/a")->value().bytes.empty());

  const std::int64_t lease = gateway->grant(60).value();
  REQUIRE(gateway->put_if({}, {"/c", "leased", lease}).value() > 0);
  CHECK(gateway->keep(lease).value());
  REQUIRE(gateway->revoke(lease).has_value());
  CHECK_FALSE(gateway->get("/c")->has_value());
  CHECK_FALSE(gateway->keep(lease).value());
}

TEST_CASE("etcd gateway: a member that is away or stopped is passed over") {
  using namespace etcd_test;
  EtcdProcess etcd(3);
  const auto gateway = gateway_of(etcd, simm::etcd::kCallNs);
  REQUIRE(eventually([&] { return gateway->put_if({}, {"/a", "1"}).has_value(); }));
  for (const int number : {SIGSTOP, SIGKILL}) {
    const std::size_t member = number == SIGSTOP ? 0 : 1;
    etcd.signal(member, number);
    CHECK(eventually([&] {
      const auto found = gateway->get("/a");
      return found && found->has_value();
    }));
    CHECK(eventually([&] { return gateway->put_if({}, {"/a", "2"}).has_value(); }));
    if (number == SIGSTOP) etcd.signal(member, SIGCONT);
  }
  // Two of three are gone: nothing can be known, and nobody waits for long.
  etcd.signal(2, SIGKILL);
  const RealClock clock;
  const auto before_ns = clock.now_ns();
  const auto found = gateway->get("/a");
  CHECK_FALSE(found.has_value());
  CHECK(clock.now_ns() - before_ns < 30 * simm::etcd::kCallNs);
  etcd.restart(2);
  CHECK(eventually([&] { return gateway->get("/a").has_value(); }));
}

TEST_CASE("etcd gateway: with passwords, a user who may and one who may not") {
  using namespace etcd_test;
  const EtcdProcess etcd;
  for (const char* command :
       {"user add root:secret", "user grant-role root root", "user add simm:secret",
        "role add simm", "role grant-permission simm readwrite /simm/ --prefix=true",
        "user grant-role simm simm", "user add other:secret", "auth enable"}) {
    (void)etcd.control(command);
  }
  EtcdConfig config = config_of(etcd.endpoints());
  const auto ask = [&config](const std::string& user, const std::string& password) {
    config.user = user;
    config.password = password;
    return EtcdGateway::make(config).value()->put_if({}, {"/simm/c/state", "x"});
  };
  CHECK(ask("simm", "secret").value() > 0);
  const auto nobody = ask("", "");
  REQUIRE_FALSE(nobody.has_value());
  CHECK(nobody.error().context.find("manager.etcd_user") != std::string::npos);
  CHECK(ask("simm", "wrong").status() == Status::permission_denied);
  CHECK(ask("other", "secret").error().context.find("a role that reads and writes /simm/") !=
        std::string::npos);
}

TEST_CASE("etcd election: one leads; when it goes or resigns another one does") {
  using namespace etcd_test;
  const EtcdProcess etcd;
  auto first = std::make_unique<Candidate>(etcd, "first");
  REQUIRE(eventually([&] { return first->leads(); }));
  Candidate second(etcd, "second");
  REQUIRE(
      eventually([&] { return second.coordinator.leadership().leader == "first at 127.0.0.1:1"; }));
  CHECK_FALSE(second.leads());
  REQUIRE(first->coordinator.store(0, state_of(1)).has_value());
  CHECK(second.coordinator.store(1, state_of(2)).status() == Status::unreachable);
  first.reset();
  REQUIRE(eventually([&] { return second.leads(); }));
  CHECK(second.coordinator.load()->value() == state_of(1));
  REQUIRE(second.coordinator.store(1, state_of(2)).has_value());
}

TEST_CASE("etcd election: who believes that it leads, and does not, stores nothing") {
  using namespace etcd_test;
  const EtcdProcess etcd;
  Candidate old(etcd, "old");
  REQUIRE(eventually([&] { return old.leads(); }));
  REQUIRE(old.coordinator.store(0, state_of(1)).has_value());
  // As after a stop of many leases: another one's key is there, and the old one has not looked.
  const auto gateway = gateway_of(etcd);
  (void)etcd.control("del /simm/c/leader");
  REQUIRE(gateway->put_if({{"/simm/c/leader", kMade, 0}}, {"/simm/c/leader", "new"}).value() > 0);
  CHECK_FALSE(old.coordinator.store(1, state_of(2)).has_value());
  CHECK(gateway->get("/simm/c/state")->value().created ==
        gateway->get("/simm/c/state")->value().modified);
  CHECK(eventually([&] { return old.coordinator.leadership().leader == "new"; }));
}

TEST_CASE("etcd election: a quorum that is lost for a while changes no leader's state") {
  using namespace etcd_test;
  EtcdProcess etcd(3);
  Candidate one(etcd, "one", simm::etcd::kCallNs);
  Candidate two(etcd, "two", simm::etcd::kCallNs);
  REQUIRE(eventually([&] { return one.leads() || two.leads(); }));
  Candidate& leader = one.leads() ? one : two;
  // A store that comes too late may happen: a second one then finds the state of the first.
  REQUIRE(eventually([&] {
    const auto there = leader.coordinator.load();
    if (there && there->has_value()) return **there == state_of(1);
    return there && leader.coordinator.store(0, state_of(1)).has_value();
  }));
  etcd.signal(1, SIGSTOP);
  etcd.signal(2, SIGSTOP);
  CHECK_FALSE(leader.coordinator.store(1, state_of(2)).has_value());
  // Without etcd nobody knows who leads once the lease may be over.
  CHECK(eventually([&] { return !one.leads() && !two.leads(); }));
  CHECK_FALSE(one.coordinator.leadership().trouble.empty());
  // The control thread does not wait for what the election waits for: each call would take the
  // time that the stopped members are given.
  const RealClock clock;
  CHECK(eventually([&] {
    const auto asked_ns = clock.now_ns();
    const bool has_failed = !leader.coordinator.load().has_value();
    return has_failed && clock.now_ns() - asked_ns < simm::etcd::kCallNs / 10;
  }));
  etcd.signal(1, SIGCONT);
  etcd.signal(2, SIGCONT);
  REQUIRE(eventually([&] { return one.leads() || two.leads(); }));
  Candidate& next = one.leads() ? one : two;
  // The store that had no answer may have happened after all.
  std::optional<StoredState> found;
  REQUIRE(eventually([&] {
    const auto loaded = next.coordinator.load();
    if (loaded) found = loaded.value();
    return loaded && found.has_value();
  }));
  CHECK((*found == state_of(1) || *found == state_of(2)));
  REQUIRE(next.coordinator.store(found->epoch, state_of(found->epoch + 1)).has_value());
  CHECK(one.leads() != two.leads());
}

TEST_CASE("etcd coordinator: what is not a state of ours is refused, and never overwritten") {
  using namespace etcd_test;
  const EtcdProcess etcd;
  (void)etcd.control("put /simm/c/state something-else-that-somebody-keeps-in-this-very-key-of-48");
  Candidate one(etcd, "one");
  REQUIRE(eventually([&] { return one.leads(); }));
  const auto loaded = one.coordinator.load();
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.status() == Status::incompatible);
  CHECK(loaded.error().context.find("/simm/c/state") != std::string::npos);
  CHECK(one.coordinator.store(0, state_of(1)).status() == Status::incompatible);
  CHECK(etcd.control("get /simm/c/state").find("something-else") != std::string::npos);
}
