// Strangers around managers on a real etcd, beside a victim of the cluster: at the managers' ports,
// at etcd's, and in etcd's place. The victim goes on, and maps still change meanwhile.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/cluster/cluster_codec.h"
#include "tests/process/etcd/etcd_cluster.h"
#include "tests/siege/known_member.h"
#include "tests/siege/siege.h"
#include "tests/siege/strangers.h"
#include "tests/support/free_port.h"
#include "tests/support/impostor.h"
#include "tests/support/network_relay.h"

namespace simm::siege {
namespace manager_siege {

using namespace etcd_processes;
using test_support::Impostor;
using test_support::ImpostorWords;
using test_support::NetworkRelay;

// Two managers, whose first endpoint of etcd is a stranger's; a storage daemon, and the victim's
// node.
struct Besieged {
  Besieged() {
    cluster.start_managers();
    REQUIRE(storage->start());
    const bool has_started = node->start();
    REQUIRE_MESSAGE(has_started, node->log());
    REQUIRE(eventually([&] { return sees_members(*node, 1); }, kPatienceMs));
  }
  // Managed closes the "manager" of each, and so the last object of these.
  [[nodiscard]] std::string keys_of(std::size_t manager) const {
    return etcd_keys({"http://" + impostor.address(), "http://" + to_etcd.address()}) +
           R"(}, "metrics": {"listen": ")" + metrics[manager] + "\"";
  }
  // The map of the manager that leads is everybody's.
  [[nodiscard]] bool is_newest_map_used() const {
    return std::any_of(cluster.managers.begin(), cluster.managers.end(), [&](const auto& manager) {
      return Managed::leads(*manager) && uses_the_map_of(*node, *manager) &&
             uses_the_map_of(*storage, *manager);
    });
  }

  EtcdProcess etcd;
  const std::string etcd_address = etcd.endpoints()[0].substr(std::strlen("http://"));
  NetworkRelay to_etcd{etcd_address};
  Impostor impostor;
  const std::array<std::string, 2> metrics{free_address(), free_address()};
  Managed cluster{{keys_of(0), keys_of(1)}};
  const std::unique_ptr<DaemonProcess> storage = cluster.storage("s");
  const std::unique_ptr<DaemonProcess> node = std::make_unique<DaemonProcess>(
      cluster.member_keys("n") + R"(, "node": {"pool_bytes": "0"}, )" + besieged_keys(), "node");
};

// A member with next to no pool, so no object moves to it: the map alone is new.
cluster::Join small_member() {
  cluster::Join join;
  join.address = "127.0.0.1";
  join.port = test_support::free_port();
  join.shards = 1;
  join.weight_bytes = 1;
  return join;
}

// As a daemon does, a member comes anew when a hello gets no answer: in a flood the kernel may have
// lost its connection.
constexpr int kHelloMs = 2'000;

// One attempt of a member to join the manager that leads, if there is one.
bool joins(const Besieged& besieged, std::uint64_t number) {
  for (std::size_t i = 0; i < besieged.cluster.managers.size(); ++i) {
    const DaemonProcess& manager = *besieged.cluster.managers[i];
    if (!Managed::leads(manager)) continue;
    const std::uint64_t epoch = Managed::epoch(manager);
    const cluster::DaemonIdentity who{
        {number, ~number}, cluster::ClusterRole::storage, "small-" + std::to_string(number)};
    KnownMember member(
        {besieged.cluster.addresses[i], {}, besieged.cluster.secret.path(), kHelloMs}, who);
    if (!member.is_welcome() || !member.say(cluster::encode(small_member()).value())) return false;
    const bool has_joined = eventually([&] { return Managed::epoch(manager) > epoch; });
    (void)member.say(cluster::encode(cluster::Leave{}).value());
    return has_joined;
  }
  return false;
}

// While it all goes on, a member joins and leaves, and everybody has the newest map.
void change_map(const Besieged& besieged, const std::string& name, const Until& until) {
  static std::uint64_t number = 1000;
  const auto since = std::chrono::steady_clock::now();
  CHECK(eventually([&] { return joins(besieged, ++number); }, kPatienceMs));
  CHECK(eventually([&] { return besieged.is_newest_map_used(); }, kPatienceMs));
  const auto took = std::chrono::steady_clock::now() - since;
  MESSAGE(name << ": a new map took "
               << std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms");
  while (!until.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void check_managers(const Besieged& besieged) {
  for (const auto& manager : besieged.cluster.managers) CHECK(manager->alive());
  (void)besieged.cluster.await_leader({0, 1});
}

TEST_CASE("managers on etcd: strangers at their ports and at etcd's hold up nobody") {
  Besieged besieged;
  const auto& managers = besieged.cluster.managers;
  const Place place(*besieged.node, {besieged.storage.get(), managers[0].get(), managers[1].get()});
  Siege siege("managers", place);
  const std::vector<std::string> listening(besieged.cluster.addresses.begin(),
                                           besieged.cluster.addresses.end());
  const std::vector<std::string> pages(besieged.metrics.begin(), besieged.metrics.end());
  const std::string all_keys =
      "POST /v3/kv/range HTTP/1.1\r\nHost: etcd\r\nContent-Length: 36\r\n\r\n"
      R"({"key": "AA==", "range_end": "AA=="})";
  const auto at_ports = [&](const IsOver& over) { attack_as_strangers(listening, over); };
  const auto at_pages = [&](const IsOver& over) { attack_by_http(pages, over); };
  const auto asking_pages = [&](const IsOver& over) { attack_by_pages(pages, over); };
  const auto at_etcd = [&](const IsOver& over) { attack_by_http({besieged.etcd_address}, over); };
  const auto asking_etcd = [&](const IsOver& over) {
    attack_by_requests(besieged.etcd_address, all_keys, over);
  };

  siege.endure("strangers at the managers' ports", [&](const Place&, const Until& until) {
    const Assault assault({at_ports});
    change_map(besieged, "strangers at the managers' ports", until);
  });
  siege.endure("strangers at the managers' pages", [&](const Place&, const Until& until) {
    const Assault assault({at_pages, asking_pages});
    int attempts = 0;
    for (const std::string& page : pages) {
      CHECK(eventually([&] { return ++attempts, reads_metrics(page); }, kPatienceMs));
    }
    MESSAGE("two honest readers needed " << attempts << " attempts");
    change_map(besieged, "strangers at the managers' pages", until);
  });
  siege.endure("strangers at etcd", [&](const Place&, const Until& until) {
    const Assault assault({at_etcd, asking_etcd});
    change_map(besieged, "strangers at etcd", until);
  });
  siege.endure("strangers at all ports", [&](const Place&, const Until& until) {
    const Assault assault({at_ports, at_pages, at_etcd});
    change_map(besieged, "strangers at all ports", until);
  });
  // etcd has pages of its own that keep it busy, so busy that no map can be stored. That is for
  // who lets strangers reach etcd; the cluster goes on with the map that it has.
  siege.endure("strangers who read etcd's pages", [&](const Place&, const Until& until) {
    {
      const Assault assault(
          {[&](const IsOver& over) { attack_by_pages({besieged.etcd_address}, over); }});
      while (!until.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    change_map(besieged, "behind strangers who read etcd's pages", until);
  });
  check_managers(besieged);
}

struct Stranger {
  const char* name;
  ImpostorWords words;
};

std::vector<Stranger> strangers() {
  using std::chrono::milliseconds;
  const std::string head = "HTTP/1.1 200 OK\r\n";
  const std::string chunk = "1000\r\n" + std::string(4096, 'x') + "\r\n";
  const auto json = [&](const std::string& text) {
    return head + "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
  };
  return {{"says nothing", {"", "", milliseconds(0), false}},
          {"says garbage", {std::string(5'000, 'G')}},
          {"has a body without an end", {head + "Transfer-Encoding: chunked\r\n\r\n", chunk}},
          {"says a byte now and then",
           {head + "Content-Length: 1000\r\n\r\n", " ", milliseconds(20), false}},
          {"has an empty object for all", {json("{}")}},
          {"has wrong types",
           {json(R"({"header": {}, "kvs": 7, "succeeded": "yes", "ID": [], "result": 1})")}}};
}

TEST_CASE("managers on etcd: a stranger who answers in its place holds up nobody") {
  Besieged besieged;
  const auto& managers = besieged.cluster.managers;
  const Place place(*besieged.node, {besieged.storage.get(), managers[0].get(), managers[1].get()});
  Siege siege("managers", place);
  for (const Stranger& stranger : strangers()) {
    const std::string name = std::string("a stranger in etcd's place who ") + stranger.name;
    siege.endure(name, [&](const Place&, const Until& until) {
      besieged.impostor.say(stranger.words);
      const std::uint64_t callers = besieged.impostor.callers();
      // Managers stay with an endpoint that answers, so the good one is away for a moment.
      besieged.to_etcd.cut();
      CHECK(eventually([&] { return besieged.impostor.callers() >= callers + 2; }, kPatienceMs));
      besieged.to_etcd.mend();
      change_map(besieged, name, until);
    });
    check_managers(besieged);
  }
}

}  // namespace manager_siege
}  // namespace simm::siege
