// Attacks between machines, beside a victim of another daemon: strangers without the secret, peers
// with it, and a daemon behind a network that stalls, crawls, breaks and damages. The last one
// lives in a network of its own, where relays answer at the addresses of the others: that needs
// root.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/cluster/cluster_codec.h"
#include "simm/client.h"
#include "tests/process/cluster/cluster_processes.h"
#include "tests/siege/known_member.h"
#include "tests/siege/known_peer.h"
#include "tests/siege/siege.h"
#include "tests/siege/strangers.h"
#include "tests/support/network_namespaces.h"
#include "tests/support/network_relay.h"
#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace simm::siege {
namespace peer_siege {

using namespace cluster_processes;
using test_support::NetworkNamespaces;
using test_support::NetworkRelay;
using test_support::RelayTrouble;
using test_support::RelayWay;

// A manager, a storage daemon, and the victim's node.
struct Besieged {
  Besieged() {
    REQUIRE(cluster.manager.start());
    REQUIRE(storage->start());
    const bool has_started = node->start();
    REQUIRE_MESSAGE(has_started, node->log());
    REQUIRE(eventually([&] { return uses_the_map_of(*node, cluster.manager); }));
    REQUIRE(eventually([&] { return sees_members(*node, 1); }));
    address = node->report("peers")["peers"][0]["address"];
  }
  [[nodiscard]] KnownDaemon known() const {
    const std::string text = storage->report("status")["cluster"]["incarnation"];
    REQUIRE(text.size() == 32);
    const auto half = [&](std::size_t at) { return std::stoull(text.substr(at, 16), nullptr, 16); };
    return {address, {half(0), half(16)}, cluster.secret.path()};
  }

  ClusterProcesses cluster;
  std::unique_ptr<DaemonProcess> storage = cluster.storage("a");
  std::unique_ptr<DaemonProcess> node = cluster.node("n", "0", ", " + besieged_keys());
  std::string address;  // of the storage daemon
};

// ---- with the secret ----

// Links that never say whose they are, as many as one daemon gets.
void attack_by_silent_links(const KnownDaemon& daemon, const Until& until) {
  std::vector<std::unique_ptr<KnownPeer>> peers;
  std::size_t welcome = 0;
  for (std::uint64_t link = 1; !until.is_over(); ++link) {
    peers.push_back(std::make_unique<KnownPeer>(daemon, "silent", link));
    welcome += peers.back()->is_welcome() ? 1U : 0U;
    if (peers.size() > 300) peers.erase(peers.begin());
  }
  CHECK(welcome > 0);
}

void attack_by_wrong_frames(const KnownDaemon& daemon, const Until& until) {
  for (std::uint64_t link = 1; !until.is_over(); ++link) {
    KnownPeer peer(daemon, "wrong", link);
    CHECK(peer.is_welcome());
    CHECK(peer.say_garbage(64 << 10) > 0);
    REQUIRE_MESSAGE(eventually([&] { return peer.is_over(); }), "the daemon listens on");
  }
}

// Of many addresses each: what they do wrong must not hide what goes wrong.
void attack_by_many_addresses(const std::vector<std::string>& addresses, const Until& until) {
  for (unsigned i = 0; !until.is_over() && i < 1'500; ++i) {
    const std::string source =
        "127." + std::to_string(1 + i % 250) + "." + std::to_string(i / 250) + ".9";
    const ipc::UniqueFd socket = connect_to(addresses[i % addresses.size()], source);
    const std::string garbage(1 + i, 'G');
    (void)::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

// Entries of a daemon's list of errors.
std::size_t errors_of(const DaemonProcess& daemon) {
  const auto report = daemon.report("errors");
  CHECK(report["dropped"] == 0);
  return report["errors"].size();
}

// ---- as a member ----

using Packet = std::vector<std::byte>;

Packet packet(const cluster::MemberMessage& message) {
  return cluster::encode(message).value();
}

// It owns no slots: what it says is all that it does.
cluster::Join subscriber() {
  cluster::Join join;
  join.address = "10.0.0.9";
  join.port = 30'002;
  join.shards = 2;
  return join;
}

void say_as(const KnownDaemon& manager, const cluster::DaemonIdentity& who,
            const std::vector<Packet>& packets) {
  KnownMember member(manager, who);
  CHECK(member.is_welcome());
  for (const Packet& each : packets) {
    if (!member.say(each)) return;  // it was too much already
  }
  CHECK(member.hears());
}

// Addresses and names of every byte, numbers beyond their limits, maps of epochs that no cluster
// reaches, the incarnation of another daemon.
void attack_by_impossible_messages(const KnownDaemon& manager, const KnownDaemon& storage,
                                   const Until& until) {
  constexpr base::Epoch kSomeEpoch = 0x1122334455667788;
  const Packet report =
      packet(cluster::MapReport{cluster_samples::slot_map_of(kSomeEpoch, {}, nullptr, nullptr)});
  std::uint64_t number = 1;
  const auto peer = [&] {
    ++number;
    return cluster::DaemonIdentity{
        {number, ~number}, cluster::ClusterRole::storage, "odd-" + std::to_string(number)};
  };
  for (unsigned byte = 0x80; byte < 0x100; ++byte) {
    const std::string odd = std::string("10.0.0.") + static_cast<char>(byte);
    say_as(manager, peer(), {cluster_samples::patched(packet(subscriber()), "10.0.0.9", odd)});
  }
  do {
    for (const base::Epoch epoch : {base::Epoch{0}, cluster::kEpochMax / 2 + 1, cluster::kEpochMax,
                                    ~base::Epoch{0} - 1, ~base::Epoch{0}}) {
      cluster::Join join = subscriber();
      join.map_epoch = epoch;
      say_as(manager, peer(),
             {packet(join), cluster_samples::patched(report, kSomeEpoch, epoch),
              packet(cluster::Heartbeat{epoch, epoch, epoch, epoch})});
    }
    cluster::Join same = subscriber();
    same.weight_bytes = 1;
    say_as(manager, {storage.incarnation, cluster::ClusterRole::storage, "twin"}, {packet(same)});
  } while (!until.is_over());
}

// A daemon of 64 shards whose port takes connections and says nothing: room for its links is room
// that others want.
void attack_by_silent_shards(const KnownDaemon& manager, const Until& until) {
  const ipc::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof here;
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&here), sizeof here) == 0);
  REQUIRE(::listen(listener.get(), 128) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here), &bytes) == 0);
  const std::uint64_t number = 77;
  KnownMember member(manager, {{number, ~number}, cluster::ClusterRole::storage, "mute"});
  REQUIRE(member.is_welcome());
  cluster::Join join;
  join.address = "127.0.0.1";
  join.port = ntohs(here.sin_port);
  join.shards = 64;
  join.weight_bytes = 1;
  CHECK(member.say(packet(join)));
  CHECK(member.hears());
  for (std::uint64_t beat = 1; !until.is_over(); ++beat) {
    CHECK(member.say(packet(cluster::Heartbeat{beat, 0, 0, 0})));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(member.say(packet(cluster::Leave{})));
}

TEST_CASE("between machines: members that say the impossible or nothing hold up nobody") {
  Besieged besieged;
  const Place place(*besieged.node, {besieged.storage.get()});
  const KnownDaemon storage = besieged.known();
  const KnownDaemon manager{besieged.cluster.address, {}, storage.secret_file};
  Siege siege("peers", place);
  siege.endure("strangers of many addresses", [&](const Place&, const Until& until) {
    attack_by_many_addresses({besieged.address, besieged.cluster.address}, until);
  });
  // As many kinds of mistakes as strangers can make, whoever makes them.
  CHECK(errors_of(besieged.cluster.manager) <= 8);
  CHECK(errors_of(*besieged.storage) <= 8);
  siege.endure("impossible messages", [&](const Place&, const Until& until) {
    attack_by_impossible_messages(manager, storage, until);
  });
  for (const char* const topic : {"nodes", "slots"}) {
    CHECK_FALSE(besieged.node->report(topic).is_discarded());
    CHECK_FALSE(besieged.cluster.manager.report(topic).is_discarded());
  }
  siege.endure("silent shards",
               [&](const Place&, const Until& until) { attack_by_silent_shards(manager, until); });
  CHECK(besieged.storage->alive());
  CHECK(besieged.cluster.manager.alive());
  CHECK(eventually([&] { return sees_members(*besieged.node, 1); }));
}

TEST_CASE("between machines: strangers and peers with the secret hold up no other daemon") {
  Besieged besieged;
  const Place place(*besieged.node, {besieged.storage.get()});
  const KnownDaemon known = besieged.known();
  Siege siege("peers", place);
  siege.endure("strangers at every port", [&](const Place&, const Until& until) {
    attack_as_strangers({besieged.address, besieged.cluster.address},
                        [&] { return until.is_over(); });
  });
  siege.endure("silent links",
               [&](const Place&, const Until& until) { attack_by_silent_links(known, until); });
  siege.endure("wrong frames",
               [&](const Place&, const Until& until) { attack_by_wrong_frames(known, until); });
  CHECK(besieged.storage->alive());
  CHECK(besieged.cluster.manager.alive());
}

// ---- behind a bad network ----

// Writes and reads long pages through a node, whatever becomes of them.
class Hammer {
public:
  explicit Hammer(const std::string& socket) : thread_([this, socket] { run(socket); }) {}
  ~Hammer() {
    is_over_ = true;
    thread_.join();
  }
  Hammer(const Hammer&) = delete;
  Hammer& operator=(const Hammer&) = delete;
  [[nodiscard]] std::uint64_t calls() const { return calls_; }

private:
  static constexpr std::size_t kPages = 4;
  static constexpr std::size_t kPageBytes = 2 << 20;

  void run(const std::string& socket) {
    ClientOptions options;
    options.socket_path = socket;
    auto client = Client::connect(options);
    auto region = client ? client->allocate_region(kPages * kPageBytes)
                         : Expected<Region>(Error{client.status(), "no client"});
    if (!region) return;
    std::memset(region->data(), 0x5A, region->size());
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < kPages; ++i) keys.push_back("hammer/" + std::to_string(i));
    std::vector<Item> items;
    for (std::size_t i = 0; i < kPages; ++i) {
      items.push_back({keys[i], View(*region, i * kPageBytes, kPageBytes)});
    }
    std::vector<PageResult> results(kPages);
    CallOptions call;
    call.timeout_ms = 500;
    call.mode = PutMode::replace;
    for (; !is_over_; ++calls_) {
      (void)(calls_ % 2 == 0 ? client->put(items, results, call)
                             : client->get(items, results, call));
    }
  }

  std::atomic<bool> is_over_{false};
  std::atomic<std::uint64_t> calls_{0};
  std::thread thread_;
};

struct Trouble {
  const char* name;
  RelayTrouble to_server;
  RelayTrouble to_caller;
  bool resets = false;
  bool conceals = false;
};

std::vector<Trouble> troubles() {
  RelayTrouble stalled;
  stalled.holds = true;
  RelayTrouble slow;
  slow.bytes_per_s = 1'000'000;
  RelayTrouble damaged;
  damaged.damage_every_bytes = 100'000;
  RelayTrouble swallowed;
  swallowed.swallows = true;
  RelayTrouble forged;
  forged.forges_rosters = true;
  return {{"a peer that reads nothing", {}, stalled},
          {"a peer whose payload never comes", stalled, {}},
          {"a peer behind 1 MB/s", slow, slow},
          {"a peer that is reset", {}, {}, true},
          {"a peer whose frames are damaged", damaged, damaged},
          {"a peer in whose name rosters are forged", forged, {}},
          {"a peer that is half open", swallowed, {}, false, true}};
}

TEST_CASE("between machines: a daemon behind a bad network holds up no other one") {
  const NetworkNamespaces network(1);
  if (!network.ready()) return;
  Besieged besieged;
  const NetworkRelay to_manager(besieged.cluster.address, 1, network.path(0));
  NetworkRelay to_storage(besieged.address, 2, network.path(0));
  const auto other = besieged.cluster.node("other");
  other->enter_network(network.path(0));
  const bool has_started = other->start();
  REQUIRE_MESSAGE(has_started, other->log());
  REQUIRE(eventually([&] { return sees_members(*other, 1); }));
  const Place place(*besieged.node, {besieged.storage.get()});
  Siege siege("peers", place);
  for (const Trouble& trouble : troubles()) {
    siege.endure(trouble.name, [&](const Place&, const Until& until) {
      const Hammer one(other->socket());
      const Hammer two(other->socket());
      (void)eventually([&] { return one.calls() + two.calls() >= 4; });
      to_storage.conceal_ends(trouble.conceals);
      to_storage.make(RelayWay::to_server, trouble.to_server);
      to_storage.make(RelayWay::to_caller, trouble.to_caller);
      const std::uint64_t damages = to_storage.damages();
      if (trouble.to_server.forges_rosters) {
        to_storage.reset();
        CHECK(eventually([&] { return to_storage.damages() > damages; }));
      }
      while (!until.is_over()) {
        if (trouble.resets) to_storage.reset();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      to_storage.mend();
      // Nothing that was forged counts: the next link is taken.
      if (trouble.to_server.forges_rosters) {
        CHECK(eventually([&] { return sees_members(*other, 1); }));
      }
    });
  }
  CHECK(besieged.storage->alive());
  CHECK(besieged.cluster.manager.alive());
  CHECK(eventually([&] { return sees_members(*other, 1); }));
}

}  // namespace peer_siege
}  // namespace simm::siege
