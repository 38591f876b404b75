// Daemons of all roles that are killed, stopped, started again and continued, one after the other,
// while clients of two nodes write and read: no byte is wrong, no old version comes back, and in
// the end everything is as before. SIMM_KILLS, SIMM_PAUSES: how many; SIMM_SEED: which.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/process/cluster/page_load.h"

namespace cluster_chaos_test {

using namespace cluster_processes;

// Everything that can be killed or stopped, with the clients that do not care.
struct Crowd {
  Crowd() {
    for (DaemonProcess* daemon : all()) REQUIRE(daemon->start());
    REQUIRE(eventually([&] { return sees_members(*node, 2) && sees_members(*other, 2); }));
    for (const char* prefix : {"one/", "two/"}) load.write(*node, prefix);
    load.read(*other, "one/");
  }
  std::vector<DaemonProcess*> all() {
    return {&cluster.manager, a.get(), b.get(), node.get(), other.get()};
  }

  ClusterProcesses cluster{30'000, "", 300};
  std::unique_ptr<DaemonProcess> a = cluster.storage("a");
  std::unique_ptr<DaemonProcess> b = cluster.storage("b");
  std::unique_ptr<DaemonProcess> node = cluster.node("n", "0", kEngineKeys);
  std::unique_ptr<DaemonProcess> other = cluster.node("o", "0", kEngineKeys);
  PageLoad load;
};

// What is done to a daemon in one round.
enum class Blow : std::uint8_t { kill, pause };

// As many of each as asked for, in an order that the seed gives.
std::vector<Blow> blows(std::uint64_t kills, std::uint64_t pauses, std::mt19937_64& random) {
  std::vector<Blow> all(kills, Blow::kill);
  all.insert(all.end(), pauses, Blow::pause);
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

// Storage daemons most of the time.
std::size_t draw_victim(std::mt19937_64& random) {
  constexpr std::array<std::size_t, 8> kVictims{0, 1, 1, 1, 2, 2, 3, 4};
  return kVictims[random() % kVictims.size()];
}

TEST_CASE("daemons are killed and stopped under load, and no byte is wrong") {
  const std::uint64_t seed = number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t kills = number_from("SIMM_KILLS", 50);
  const std::uint64_t pauses = number_from("SIMM_PAUSES", 20);
  MESSAGE("SIMM_SEED=" << seed << " SIMM_KILLS=" << kills << " SIMM_PAUSES=" << pauses
                       << " process_cluster -tc='daemons are*'");
  std::mt19937_64 random(seed);
  const auto sleep_ms = [&](std::uint64_t least, std::uint64_t most) {
    ::usleep(static_cast<useconds_t>(1000 * (least + random() % (most - least))));
  };
  Crowd crowd;
  for (const Blow blow : blows(kills, pauses, random)) {
    DaemonProcess& daemon = *crowd.all()[draw_victim(random)];
    if (blow == Blow::kill) {
      daemon.signal(SIGKILL);
      CHECK(daemon.wait() == 1000 + SIGKILL);
      sleep_ms(20, 400);
      REQUIRE(daemon.start());
    } else {
      daemon.signal(SIGSTOP);
      sleep_ms(20, 900);
      daemon.signal(SIGCONT);
    }
    sleep_ms(50, 400);
  }
  // With everybody back, everything can be stored again, and is found by both nodes.
  const auto is_settled = [&] {
    for (DaemonProcess* daemon :
         {crowd.a.get(), crowd.b.get(), crowd.node.get(), crowd.other.get()}) {
      if (!uses_the_map_of(*daemon, crowd.cluster.manager)) return false;
    }
    return sees_members(*crowd.node, 2) && sees_members(*crowd.other, 2);
  };
  CHECK(eventually(is_settled));
  crowd.load.check();
  CHECK(crowd.node->counter("engine.0.fences_overdue") == 0);
  CHECK(crowd.node->counter("engine.0.corrupt") == 0);
  Checker after(*crowd.node);
  Checker elsewhere(*crowd.other);
  CHECK(after.put_all(32, simm::Status::ok) == 32);
  CHECK(elsewhere.count(32, simm::Status::ok) == 32);
}

}  // namespace cluster_chaos_test
