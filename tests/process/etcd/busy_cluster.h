// A cluster at work: managers on an etcd, two storage daemons, and a node whose clients never stop.
// What is in etcd's history shows that two leaders never store. Thread: the test's.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daemon/http/base64.h"
#include "tests/process/etcd/etcd_cluster.h"
#include "tests/support/network_namespaces.h"

namespace etcd_processes {

using simm::test_support::NetworkNamespaces;

constexpr const char* kState = "/simm/simm/state";

// What etcdctl answers; etcd may just have no leader.
inline nlohmann::json answer_of(const EtcdProcess& etcd, const std::string& arguments) {
  nlohmann::json answer;
  REQUIRE(eventually(
      [&] {
        answer = nlohmann::json::parse(etcd.control(arguments), nullptr, false);
        return answer.contains("header");
      },
      kPatienceMs));
  return answer;
}

// The epochs that were stored, in the order of etcd's revisions, from its history.
inline std::vector<std::uint64_t> stored_epochs(const EtcdProcess& etcd) {
  std::vector<std::uint64_t> epochs;
  const std::string key = kState;
  const auto now = answer_of(etcd, "get -w json " + key);
  REQUIRE(now.contains("kvs"));
  const std::int64_t last = now["kvs"][0]["mod_revision"];
  for (std::int64_t revision = now["kvs"][0]["create_revision"]; revision <= last; ++revision) {
    const auto then = answer_of(etcd, "get -w json --rev=" + std::to_string(revision) + " " + key);
    REQUIRE(then.contains("kvs"));
    if (then["kvs"][0]["mod_revision"] != revision) continue;
    const auto bytes = simm::http::from_base64(then["kvs"][0]["value"].get<std::string>());
    REQUIRE((bytes && bytes->size() >= 24));
    std::uint64_t epoch = 0;
    std::memcpy(&epoch, bytes->data() + 16, sizeof epoch);  // as CLUSTER.md has it
    epochs.push_back(epoch);
  }
  return epochs;
}

// Two managers, two storage daemons and a node whose clients never stop.
struct Busy {
  explicit Busy(const EtcdProcess& of)
      : Busy(of, {etcd_keys(of.endpoints()), etcd_keys(of.endpoints())}) {}
  // `keys`: where each manager finds etcd.
  Busy(const EtcdProcess& of, const std::array<std::string, 2>& keys) : etcd(of), cluster(keys) {
    start();
  }
  // Each manager at a host of its own, the daemons at `host`.
  Busy(const EtcdProcess& of, const std::array<std::string, 2>& keys,
       const NetworkNamespaces& hosts, std::size_t host)
      : etcd(of),
        cluster(keys, {NetworkNamespaces::address(0) + ":30001",
                       NetworkNamespaces::address(1) + ":30001"}),
        network(hosts.path(host)),
        address(NetworkNamespaces::address(host)) {
    for (std::size_t i = 0; i < cluster.managers.size(); ++i) {
      cluster.managers[i]->enter_network(hosts.path(i));
    }
    start();
  }
  void start() {
    cluster.start_managers();
    for (int i = 0; i < 2; ++i) begin_to_grow();
    node = cluster.node("n");
    node->enter_network(network);
    REQUIRE(node->start());
    REQUIRE(eventually([&] { return sees_members(*node, 2); }, kPatienceMs));
    load.write(*node, "one/");
  }
  // One storage daemon more, in everybody's map. How long that took.
  std::chrono::milliseconds grow() {
    const auto since = std::chrono::steady_clock::now();
    begin_to_grow();
    await_growth();
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 since);
  }
  void begin_to_grow() {
    const std::string name = "s" + std::to_string(members.size());
    members.push_back(cluster.storage(name, address));
    members.back()->enter_network(network);
    REQUIRE(members.back()->start());
  }
  void await_growth() const {
    REQUIRE(eventually([&] { return sees_members(*node, members.size()); }, kPatienceMs));
  }
  // What the manager says that is in its way.
  [[nodiscard]] std::string trouble(std::size_t manager) const {
    const auto rows = cluster.managers[manager]->report("managers")["managers"];
    return rows.empty() || !rows[0]["trouble"].is_string() ? "" : std::string(rows[0]["trouble"]);
  }
  void check() {
    CHECK(load.findings.failed_gets == 0);
    load.check();
    const std::vector<std::uint64_t> epochs = stored_epochs(etcd);
    for (std::size_t i = 1; i < epochs.size(); ++i) CHECK(epochs[i - 1] < epochs[i]);
    const std::size_t leader = cluster.await_leader({0, 1});
    CHECK(epochs.back() == Managed::epoch(*cluster.managers[leader]));
    CHECK(uses_the_map_of(*node, *cluster.managers[leader]));
  }

  const EtcdProcess& etcd;
  Managed cluster;
  const std::string network;  // of the daemons; empty: the test's own
  const std::string address;  // where storage daemons listen; empty: as they like
  std::vector<std::unique_ptr<DaemonProcess>> members;
  std::unique_ptr<DaemonProcess> node;
  PageLoad load;
};

}  // namespace etcd_processes
