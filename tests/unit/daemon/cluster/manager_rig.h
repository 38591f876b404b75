// ManagerRig: a manager and some daemons, connected by queues, on one clock that the test moves.
// Links can be cut, the manager can die and start again from its disk. Thread: the test's.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/manual_clock.h"
#include "daemon/cluster/cluster_codec.h"
#include "daemon/cluster/cluster_member.h"
#include "daemon/cluster/manager.h"
#include "tests/sim/old_release.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace manager_rig {

using namespace cluster_samples;
using base::kNsPerMs;
using base::kNsPerSecond;
using Bytes = std::vector<std::byte>;

class Rig;

class Daemon final : public MemberLink, public MemberEvents {
public:
  Daemon(Rig& rig, const MemberConfig& config);

  // MemberLink.
  void send(std::span<const std::byte> message) override {
    if (connection != 0) to_manager.emplace_back(message.begin(), message.end());
  }
  void close(const std::string& why) override;

  // MemberEvents.
  void on_map(const SlotMapPtr& map, const SlotMapPtr& before) override {
    CHECK((before == nullptr || before->epoch() < map->epoch()));
    maps.push_back(map);
  }
  void on_expelled(const std::string& reason) override { expelled = reason; }
  Heartbeat load() override {
    ++loads;
    return {0, 0, 12, 3456, false, reached, 0, false, drains, clock_ms(), {}};
  }
  Answer answer(const Question& question) override {
    asked.push_back(question);
    return {0, simm::Status::ok, "\"I am " + member.config().identity.name + "\""};
  }
  void on_answer(const Answer& answer) override { answers.push_back(answer); }

  [[nodiscard]] base::Epoch epoch() const { return member.epoch(); }
  [[nodiscard]] std::uint64_t clock_ms() const;

  Rig& rig;
  ClusterMember member;
  ConnectionId connection = 0;  // 0: not connected
  bool reachable = true;        // false: messages of either way are lost, nobody notices
  std::uint16_t version = kHelloVersionMax;  // that its hello agrees on
  std::uint64_t features = kFeatureMapDeltas | kFeatureDrains;
  bool frozen = false;  // it does nothing
  std::optional<MemberSet> reached;
  bool drains = false;   // it hands its slots over
  int loads = 0;         // how often it was asked: for each Join and each heartbeat
  int acknowledged = 0;  // heartbeats that were answered
  std::deque<Bytes> to_manager;
  std::deque<Bytes> to_member;
  std::vector<SlotMapPtr> maps;
  std::string expelled;
  std::vector<Question> asked;
  std::vector<Answer> answers;
  std::vector<std::string> closed;  // why, each time
};

class Rig final : public ManagerLinks {
public:
  Rig() { start_manager(); }

  void start_manager() {
    coordinator = std::make_unique<simm::sim::SimCoordinator>(disk);
    manager = std::make_unique<Manager>(config, clock, random, *coordinator, *this);
    REQUIRE(manager->start());
  }
  void kill_manager() {
    for (const auto& daemon : daemons) hang_up(*daemon);
    manager.reset();
  }

  Daemon& add(const std::string& name, std::uint64_t number, std::uint64_t weight_bytes = kGiB,
              ClusterRole role = ClusterRole::storage) {
    MemberConfig wanted;
    wanted.identity = {incarnation(number), role, name};
    wanted.address = "10.0.0.7";
    wanted.port = 30002;
    wanted.shards = 2;
    wanted.weight_bytes = weight_bytes;
    return *daemons.emplace_back(std::make_unique<Daemon>(*this, wanted));
  }
  void remove(Daemon& daemon) {
    hang_up(daemon);
    std::erase_if(daemons, [&](const auto& each) { return each.get() == &daemon; });
  }

  // As when a process dies: both ends are told.
  void hang_up(Daemon& daemon) {
    const ConnectionId was = std::exchange(daemon.connection, 0);
    if (was == 0) return;
    daemon.to_manager.clear();
    daemon.to_member.clear();
    if (manager != nullptr) manager->on_closed(was);
    daemon.member.on_closed();
  }

  // Turns of 10 ms; whoever has no connection dials.
  void run(base::TimeNs for_ns) {
    for (base::TimeNs left = for_ns; left >= 10 * kNsPerMs; left -= 10 * kNsPerMs) {
      clock.advance_ns(10 * kNsPerMs);
      for (const auto& daemon : daemons) turn(*daemon);
      if (manager != nullptr) manager->do_work();
    }
  }

  // ManagerLinks.
  void send(ConnectionId connection, std::span<const std::byte> message) override {
    if (Daemon* daemon = find(connection)) {
      daemon->to_member.emplace_back(message.begin(), message.end());
    }
  }
  void close(ConnectionId connection, const std::string& why) override {
    Daemon* daemon = find(connection);
    if (daemon == nullptr) return;
    daemon->closed.push_back(why);
    // What was sent before still arrives.
    deliver_to_member(*daemon);
    daemon->connection = 0;
    daemon->to_manager.clear();
    daemon->member.on_closed();
  }

  [[nodiscard]] base::Epoch epoch() const {
    return manager->map() == nullptr ? 0 : manager->map()->epoch();
  }
  std::uint32_t slots_of(const Daemon& daemon) const {
    const auto& identity = daemon.member.config().identity;
    const auto index = manager->map()->find(identity.incarnation);
    return index ? manager->map()->slot_count(*index) : 0;
  }
  [[nodiscard]] bool everybody_has_the_map() const {
    return std::all_of(daemons.begin(), daemons.end(), [&](const auto& daemon) {
      return daemon->member.map() != nullptr && daemon->member.map()->routes_as(*manager->map());
    });
  }

  base::ManualClock clock;
  base::SystemRandom random;  // lineages: no test looks at which
  ManagerConfig config;
  simm::sim::SimDisk disk;
  std::unique_ptr<simm::sim::SimCoordinator> coordinator;
  std::unique_ptr<Manager> manager;
  std::vector<std::unique_ptr<Daemon>> daemons;

private:
  Daemon* find(ConnectionId connection) {
    for (const auto& daemon : daemons) {
      if (daemon->connection == connection) return daemon.get();
    }
    return nullptr;
  }
  static void deliver_to_member(Daemon& daemon) {
    while (!daemon.to_member.empty()) {
      const Bytes message = std::exchange(daemon.to_member.front(), {});
      daemon.to_member.pop_front();
      if (!daemon.reachable) continue;
      const auto said = decode_manager_message(message);
      daemon.acknowledged += said && std::holds_alternative<HeartbeatAck>(*said) ? 1 : 0;
      daemon.member.on_message(simm::sim::heard_in(daemon.version, message));
    }
  }
  void turn(Daemon& daemon) {
    if (daemon.frozen) return;
    if (daemon.connection == 0 && manager != nullptr && daemon.reachable &&
        daemon.expelled.empty()) {
      daemon.connection = ++connections_;
      manager->on_connected(daemon.connection, daemon.member.config().identity, daemon.version,
                            daemon.version == kHelloVersionMin ? 0 : daemon.features);
      daemon.member.on_connected(daemon.features);
    }
    while (manager != nullptr && !daemon.to_manager.empty()) {
      const Bytes message = std::exchange(daemon.to_manager.front(), {});
      daemon.to_manager.pop_front();
      if (!daemon.reachable) continue;
      manager->on_message(daemon.connection, simm::sim::said_in(daemon.version, message));
    }
    deliver_to_member(daemon);
    daemon.member.do_work();
  }

  ConnectionId connections_ = 0;
};

inline std::uint64_t Daemon::clock_ms() const {
  return rig.clock.now_ns() / kNsPerMs;
}

inline Daemon::Daemon(Rig& the_rig, const MemberConfig& config)
    : rig(the_rig), member(config, the_rig.clock, *this, *this) {}

inline void Daemon::close(const std::string& why) {
  closed.push_back(why);
  const ConnectionId was = std::exchange(connection, 0);
  to_manager.clear();
  if (was != 0 && rig.manager != nullptr) rig.manager->on_closed(was);
}

}  // namespace manager_rig
