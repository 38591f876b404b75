// What a heartbeat costs a manager. Counted is the memory that it takes from the heap, and the
// processor time of this thread; both are compared with those of a small cluster.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <new>

#include "daemon/cluster/cluster_codec.h"
#include "tests/unit/daemon/cluster/manager_rig.h"

namespace manager_cost_test {

using namespace manager_rig;

thread_local std::uint64_t t_allocated_bytes = 0;

[[gnu::noinline]] void* counted(std::size_t bytes) {
  t_allocated_bytes += bytes;
  void* const memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

std::uint64_t thread_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

struct NoLinks final : ManagerLinks {
  void send(ConnectionId, std::span<const std::byte> message) override {
    sent_bytes += message.size();
  }
  void close(ConnectionId, const std::string&) override { ++closed; }
  std::uint64_t sent_bytes = 0;
  int closed = 0;
};

// A cluster that has a map, with so many owners of slots and as many subscribers.
struct Scene {
  explicit Scene(std::uint32_t owners) : count(2 * owners) {
    REQUIRE(manager.start());
    for (ConnectionId id = 1; id <= count; ++id) {
      const bool owns = id <= owners;
      const ClusterRole role = owns ? ClusterRole::storage : ClusterRole::node;
      manager.on_connected(id, {incarnation(id), role, "d" + std::to_string(id)}, kHelloVersionMax);
      say(id, owns ? Join{"10.0.0.7", 30002, 2, kGiB, 0, false} : Join{});
    }
    for (int turn = 0; turn < 15; ++turn) {
      clock.advance_ns(100 * kNsPerMs);
      for (ConnectionId id = 1; id <= count; ++id) say(id, heartbeat());
    }
    REQUIRE(manager.map() != nullptr);
    REQUIRE(manager.map()->members().size() == owners);
  }
  void say(ConnectionId id, const MemberMessage& message) { say(id, encode(message).value()); }
  void say(ConnectionId id, const Bytes& message) {
    manager.on_message(id, message);
    manager.do_work();
    deadline_ns += manager.next_deadline_ns();
  }
  [[nodiscard]] Heartbeat heartbeat() const {
    const base::Epoch epoch = manager.map() == nullptr ? 0 : manager.map()->epoch();
    Heartbeat said;
    said.sequence = 1;
    said.map_epoch = epoch;
    said.objects = 1000;
    said.used_bytes = kGiB;
    said.reached = MemberSet{}.set();
    if (manager.map() != nullptr) said.map_digest = manager.map()->digest();
    return said;
  }

  struct Cost {
    std::uint64_t bytes = ~std::uint64_t{0};
    std::uint64_t ns = ~std::uint64_t{0};
  };
  // Of one heartbeat: the least of some rounds, in each of which every daemon sends one.
  Cost measure(int rounds) {
    const Bytes message = encode(MemberMessage(heartbeat())).value();
    Cost least;
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t bytes = t_allocated_bytes;
      const std::uint64_t began_ns = thread_ns();
      for (ConnectionId id = 1; id <= count; ++id) {
        clock.advance_ns(100 * kNsPerMs / count);
        say(id, message);
      }
      least.ns = std::min(least.ns, (thread_ns() - began_ns) / count);
      least.bytes = std::min(least.bytes, (t_allocated_bytes - bytes) / count);
    }
    REQUIRE(links.closed == 0);
    return least;
  }

  base::ManualClock clock;
  simm::sim::SimDisk disk;
  simm::sim::SimCoordinator coordinator{disk};
  NoLinks links;
  ManagerConfig config;
  base::SeededRandom random{1};
  Manager manager{config, clock, random, coordinator, links};
  ConnectionId count;
  base::TimeNs deadline_ns = 0;
};

}  // namespace manager_cost_test

// Not inlined: compilers warn about the halves of a pair that they see.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return manager_cost_test::counted(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  return manager_cost_test::counted(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

TEST_CASE("a heartbeat costs a manager of two thousand daemons what it costs one of twenty") {
  using namespace manager_cost_test;
  Scene few(10);
  Scene many(1000);
  const Scene::Cost small = few.measure(50);
  const Scene::Cost large = many.measure(10);
  MESSAGE("20 daemons: " << small.ns << " ns, " << small.bytes << " bytes of heap; 2,000: "
                         << large.ns << " ns, " << large.bytes << " bytes");
  CHECK(large.bytes <= small.bytes);
  // Caches make some difference, what looks at everybody makes a hundred times as much.
  CHECK(large.ns < 10 * small.ns);
}

TEST_CASE("a daemon that joins again with the newest map is not sent that map") {
  using namespace manager_cost_test;
  Scene scene(1000);
  const std::uint64_t before = scene.links.sent_bytes;
  for (ConnectionId id = 1; id <= scene.count; ++id) {
    const bool owns = id <= scene.count / 2;
    const base::Epoch epoch = scene.manager.map()->epoch();
    const ClusterRole role = owns ? ClusterRole::storage : ClusterRole::node;
    const ConnectionId again = scene.count + id;
    scene.manager.on_connected(again, {incarnation(id), role, "d" + std::to_string(id)},
                               kHelloVersionMax);
    Join join = owns ? Join{"10.0.0.7", 30002, 2, kGiB, epoch, false} : Join{};
    join.map_epoch = epoch;
    scene.say(again, join);
  }
  CHECK((scene.links.sent_bytes - before) / scene.count < 100);
}
