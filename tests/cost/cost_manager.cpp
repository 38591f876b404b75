// cost_manager: heartbeats of a thousand daemons at a manager, whose instructions are counted: from
// the frame that came to the frame that goes, without the sockets.
// Usage: cost_manager TIMES. It ends with 1 when a heartbeat is not taken.
//
// They come as from 1,000 owners of slots, each every 125 ms, and say whom the daemon reaches. One
// in eight says what the daemon has done.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "daemon/base/manual_clock.h"
#include "daemon/base/random.h"
#include "daemon/cluster/cluster_codec.h"
#include "daemon/cluster/hello/frame_opener.h"
#include "daemon/cluster/hello/frame_sealer.h"
#include "daemon/cluster/manager.h"

namespace {

using namespace simm;

constexpr std::size_t kMembers = 1000;
constexpr base::TimeNs kIntervalNs = 125 * base::kNsPerMs;
constexpr std::size_t kLoadEvery = 8;
constexpr std::size_t kWarmUpRounds = 24;

struct NoDisk final : cluster::Coordinator {
  Expected<std::optional<cluster::StoredState>> load() override { return {std::nullopt}; }
  Outcome store(base::Epoch, const cluster::StoredState&) override { return Done{}; }
};

// Both ends of the connections.
struct Wires final : cluster::ManagerLinks {
  struct Wire {
    explicit Wire(const cluster::Mac& key) : member(key), opener(key), sealer(key) {}
    cluster::FrameSealer member;
    cluster::FrameOpener opener;
    cluster::FrameSealer sealer;
  };
  void send(cluster::ConnectionId to, std::span<const std::byte> message) override {
    const auto frame = wires[to - 1].sealer.seal(message);
    if (frame) sent_bytes += frame->size();
  }
  void close(cluster::ConnectionId, const std::string&) override { ++closed; }

  std::deque<Wire> wires;  // one does not move
  std::uint64_t sent_bytes = 0;
  int closed = 0;
};

struct Scene {
  Scene() {
    base::SeededRandom of_keys(7);
    for (std::size_t i = 0; i < kMembers; ++i) {
      cluster::Mac key{};
      key[0] = static_cast<std::byte>(of_keys.below(256));
      wires.wires.emplace_back(key);
    }
  }
  bool start() {
    if (!manager.start()) return false;
    for (cluster::ConnectionId id = 1; id <= kMembers; ++id) {
      const cluster::DaemonIdentity identity{
          {7, id}, cluster::ClusterRole::storage, "d" + std::to_string(id)};
      manager.on_connected(id, identity, cluster::kHelloVersionMax, cluster::kFeatureMapDeltas);
      manager.on_message(id, cluster::encode(join()).value());
    }
    for (std::size_t i = 0; i < kWarmUpRounds * kMembers; ++i) {
      const auto frame = heartbeat(i);
      if (!take(i, frame)) return false;
    }
    return manager.map() != nullptr && manager.map()->members().size() == kMembers;
  }
  static cluster::MemberMessage join() {
    cluster::Join join;
    join.address = "10.0.0.7";
    join.port = 30002;
    join.shards = 1;
    join.weight_bytes = std::uint64_t{1} << 30;
    return join;
  }
  std::vector<std::byte> heartbeat(std::size_t number) {
    cluster::Heartbeat said;
    said.sequence = number;
    said.objects = 1000 + number;
    if (const auto& map = manager.map()) {
      said.map_epoch = map->epoch();
      said.map_digest = map->digest();
      said.reached = ~cluster::MemberSet{} >> (cluster::kMembersMax - kMembers);
    }
    if (number / kMembers % kLoadEvery == 0) {
      said.load_ms = 1 + number;
      for (const base::LoadField& field : base::kLoadFields) said.load.*field.sum = number;
    }
    const auto payload = cluster::encode(cluster::MemberMessage(said));
    return wires.wires[number % kMembers].member.seal(payload.value()).value();
  }
  bool take(std::size_t number, std::span<const std::byte> frame) {
    clock.advance_ns(kIntervalNs / kMembers);
    cluster::FrameOpener& opener = wires.wires[number % kMembers].opener;
    const auto message = opener.open_in_place(frame);
    if (message.empty()) return false;
    manager.on_message(number % kMembers + 1, message);
    manager.do_work();
    deadline_ns += manager.next_deadline_ns();
    return wires.closed == 0;
  }

  base::ManualClock clock;
  base::SeededRandom random{1};
  NoDisk disk;
  Wires wires;
  cluster::Manager manager{cluster::ManagerConfig{}, clock, random, disk, wires};
  base::TimeNs deadline_ns = 0;
};

// What a profiler collects: it is told this name.
[[gnu::noinline]] bool measured_call(Scene& scene, std::size_t first,
                                     const std::vector<std::vector<std::byte>>& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (!scene.take(first + i, frames[i])) return false;
  }
  return true;
}

int fail(const char* why) {
  std::fprintf(stderr, "cost_manager: %s\n", why);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("usage: cost_manager TIMES");
  Scene scene;
  if (!scene.start()) return fail("the cluster has no map");
  const std::size_t first = kWarmUpRounds * kMembers;
  std::vector<std::vector<std::byte>> frames;
  for (std::size_t i = 0; i < std::strtoul(argv[1], nullptr, 10); ++i) {
    frames.push_back(scene.heartbeat(first + i));
  }
  return measured_call(scene, first, frames) ? 0 : fail("a heartbeat was not taken");
}
