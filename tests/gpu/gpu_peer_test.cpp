// Gets into memory of one GPU of what the tier of another one has: pushed by the helper of that
// other GPU where the two have access to each other, else from the host. The same bytes either way.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/gpu_world.h"
#include "tests/support/number_from.h"

namespace gpu_peer_test {

using namespace gpu_tests;
using simm::View;

constexpr std::uint64_t kBufferBytes = 24 << 20;
constexpr const char* kTier = R"(, "tier_bytes": "128MiB", "reserve_bytes": "64MiB")";

// Before the daemon starts: its helpers, and the driver in this process, see so many GPUs.
struct TwoGpus {
  explicit TwoGpus(bool meet) {
    ::setenv("SIMM_TEST_GPUS", "2", 1);
    ::setenv("SIMM_TEST_GPU_PEERS", meet ? "1" : "0", 1);
  }
  ~TwoGpus() {
    ::unsetenv("SIMM_TEST_GPUS");
    ::unsetenv("SIMM_TEST_GPU_PEERS");
  }
  TwoGpus(const TwoGpus&) = delete;
  TwoGpus& operator=(const TwoGpus&) = delete;
};

// A region on each GPU, and one in memory of the host.
struct World {
  explicit World(bool meet) : gpus(meet), world(true, "", kTier), client(world.connect()) {
    for (std::size_t gpu = 0; gpu < 2; ++gpu) {
      auto made = client.register_region(buffers[gpu].pointer(), kBufferBytes);
      INFO((made ? std::string() : made.error().context));
      REQUIRE(made.has_value());
      regions[gpu] = std::move(*made);
    }
    auto made = client.allocate_region(kBufferBytes);
    REQUIRE(made.has_value());
    host = std::move(*made);
  }

  Status put(const std::string& key, std::uint64_t bytes, std::uint64_t object) {
    for (std::uint64_t i = 0; i < bytes; ++i) host.data()[i] = pattern(object, i);
    simm::CallOptions options;
    options.mode = simm::PutMode::replace;
    return client.put(key, View(host, 0, bytes), options).status;
  }
  Status get(std::size_t gpu, const std::string& key, std::uint64_t bytes) {
    std::fill_n(buffers[gpu].seen().begin(), bytes + 1, std::byte{0xcd});
    return client.get(key, View(regions[gpu], 0, bytes)).status;
  }
  [[nodiscard]] bool shows(std::size_t gpu, std::uint64_t bytes, std::uint64_t object) const {
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (buffers[gpu].seen()[i] != pattern(object, i)) return false;
    }
    return buffers[gpu].seen()[bytes] == std::byte{0xcd};
  }
  [[nodiscard]] std::uint64_t figure(std::size_t gpu, const char* name) const {
    return world.daemon.report("gpus").at(gpu).at(name).get<std::uint64_t>();
  }
  // Until what the first GPU's tier has is on its way to the second by a path that is known: each
  // GPU's helper comes to know the other's region in its own time. A new object each time, because
  // what came by no path has its copy in the second GPU's tier, and comes from there.
  void await_path(const char* path) {
    const std::size_t counted_at = std::string(path) == "tier_peer_hits" ? 0 : 1;
    std::uint64_t object = 1000;
    REQUIRE(eventually([&] {
      const std::string key = "first/" + std::to_string(++object);
      REQUIRE(put(key, 1 << 20, object) == Status::ok);
      for (const std::size_t gpu : {0u, 0u, 0u, 1u}) {
        REQUIRE(get(gpu, key, 1 << 20) == Status::ok);
      }
      return figure(counted_at, path) > 0;
    }));
    CHECK(shows(1, 1 << 20, object));
  }

  const TwoGpus gpus;
  const GpuWorld world;
  simm::Client client;
  const std::array<GpuBuffer, 2> buffers{
      {GpuBuffer(kBufferBytes), GpuBuffer(kBufferBytes, simm::cuda::kHandlePosixDescriptor, 1)}};
  std::array<simm::Region, 2> regions;
  simm::Region host;
};

}  // namespace gpu_peer_test

TEST_CASE("gpu peers: what one GPU's tier has goes to the other GPU, the same bytes by each path") {
  using namespace gpu_peer_test;
  for (const bool meet : {true, false}) {
    CAPTURE(meet);
    World world(meet);
    world.await_path(meet ? "tier_peer_hits" : "tier_host_hits");
    std::uint64_t bytes_before = world.figure(0, "tier_peer_hit_bytes");
    const std::uint64_t host_before = world.figure(1, "tier_host_hit_bytes");
    const std::uint64_t in_before = world.figure(1, "bytes_in");
    std::uint64_t crossed = 0;
    std::uint64_t object = 0;
    for (const std::uint64_t bytes : {4096ul, 65'537ul, (1ul << 20) + 3, 4'500'000ul, 20ul << 20}) {
      const std::string key = "object/" + std::to_string(++object);
      REQUIRE(world.put(key, bytes, object) == Status::ok);
      for (int time = 0; time < 3; ++time) {
        REQUIRE(world.get(0, key, bytes) == Status::ok);
        CHECK(world.shows(0, bytes, object));
      }
      REQUIRE(world.get(1, key, bytes) == Status::ok);
      CHECK(world.shows(1, bytes, object));
      if (bytes > 16 << 10) crossed += bytes;
      // Another value: nobody sees the old one again, by whatever path.
      REQUIRE(world.put(key, bytes, object + 100) == Status::ok);
      REQUIRE(world.get(1, key, bytes) == Status::ok);
      CHECK(world.shows(1, bytes, object + 100));
    }
    CHECK(world.figure(0, "tier_peer_hit_bytes") - bytes_before == (meet ? crossed : 0));
    CHECK(world.figure(1, "tier_host_hit_bytes") - host_before == (meet ? 0 : crossed));
    CHECK(world.figure(1, "bytes_in") - in_before == 2 * (crossed + 4096));
    CHECK(world.figure(1, "tier_hits") == 0);
    CHECK(world.world.daemon.report("gpus").at(0).at("last_error") == "");
    CHECK(world.world.daemon.report("gpus").at(1).at("last_error") == "");
  }
}

TEST_CASE(
    "gpu peers: gets by two GPUs are two gets of the node, and the one who asks second keeps a "
    "copy") {
  using namespace gpu_peer_test;
  constexpr std::uint64_t kBytes = 3 << 20;
  for (const bool meet : {true, false}) {
    CAPTURE(meet);
    World world(meet);
    // Each GPU's helper comes to know the other's region in its own time.
    const char* const path = meet ? "tier_peer_hits" : "tier_host_hits";
    std::uint64_t object = 0;
    REQUIRE(eventually([&] {
      const std::string key = "first/" + std::to_string(++object);
      REQUIRE(world.put(key, 1 << 20, object) == Status::ok);
      for (const std::size_t gpu : {0u, 1u, 0u}) {
        REQUIRE(world.get(gpu, key, 1 << 20) == Status::ok);
      }
      return world.figure(meet ? 1 : 0, path) > 0;
    }));
    REQUIRE(world.put("page", kBytes, 1000) == Status::ok);
    const std::array<std::uint64_t, 2> before{world.figure(0, "tier_admitted"),
                                              world.figure(1, "tier_admitted")};
    const auto admitted = [&](std::size_t gpu) {
      return world.figure(gpu, "tier_admitted") - before[gpu];
    };
    REQUIRE(world.get(0, "page", kBytes) == Status::ok);
    CHECK(admitted(0) == 0);
    REQUIRE(world.get(1, "page", kBytes) == Status::ok);
    CHECK(world.shows(1, kBytes, 1000));
    CHECK(admitted(0) == 0);
    CHECK(admitted(1) == 1);
    // The first one is served by a push, and so needs no copy. Without access it gets one, at the
    // second get that no push could serve.
    for (int time = 0; time < 3; ++time) {
      REQUIRE(world.get(0, "page", kBytes) == Status::ok);
      CHECK(world.shows(0, kBytes, 1000));
    }
    CHECK(admitted(0) == (meet ? 0 : 1));
    CHECK(admitted(1) == 1);
  }
}

TEST_CASE("gpu peers: values change, tiers come and go, helpers die, and no get has other bytes") {
  using namespace gpu_peer_test;
  const std::uint64_t seed = simm::test_support::number_from("SIMM_TEST_SEED", 7);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  World world(true);
  world.await_path("tier_peer_hits");
  constexpr std::size_t kKeys = 12;
  std::array<std::uint64_t, kKeys> object{};  // what the key has; 0: nobody knows
  const auto bytes_of = [](std::size_t key) { return 200'000 + 150'000 * key; };
  std::uint64_t last = 0;
  const auto write = [&](std::size_t key) {
    object[key] = ++last;
    const Status status = world.put("key/" + std::to_string(key), bytes_of(key), last);
    // What failed may have been carried out: the key is not asked for before it is put again.
    if (status != Status::ok) object[key] = 0;
  };
  for (std::size_t key = 0; key < kKeys; ++key) write(key);
  std::uint64_t ok = 0;
  std::uint64_t killed = 0;
  for (int step = 0; step < 600; ++step) {
    const std::size_t key = random() % kKeys;
    const std::uint64_t dice = random() % 100;
    if (dice < 8) {
      write(key);
    } else if (dice < 10) {
      (void)world.world.daemon.report(
          "gpus", std::to_string(random() % 2) + (random() % 2 == 0 ? "=0" : "=128MiB"));
    } else if (dice == 10 && killed < 6) {
      const auto gpus = world.world.daemon.report("gpus");
      const pid_t helper = gpus.at(random() % 2).at("helper").get<pid_t>();
      if (helper > 0) killed += ::kill(helper, SIGKILL) == 0 ? 1u : 0u;
    } else if (object[key] != 0) {
      const std::size_t gpu = random() % 2;
      if (world.get(gpu, "key/" + std::to_string(key), bytes_of(key)) != Status::ok) continue;
      ++ok;
      REQUIRE(world.shows(gpu, bytes_of(key), object[key]));
    }
  }
  MESSAGE(ok << " gets, " << killed << " helpers killed, "
             << world.figure(0, "tier_peer_hits") + world.figure(1, "tier_peer_hits")
             << " pieces pushed by the other GPU");
  CHECK(ok > 200);
  CHECK(world.figure(0, "tier_peer_hits") + world.figure(1, "tier_peer_hits") > 10);
  // In the end both helpers map the two regions, and nobody has let go of one too few.
  for (simm::Region& region : world.regions) CHECK(region.deregister().has_value());
  CHECK(eventually([&] {
    const auto gpus = world.world.daemon.report("gpus");
    return gpus.at(0).at("regions") == 0 && gpus.at(1).at("regions") == 0;
  }));
}

TEST_CASE("gpu peers: a helper that dies while it pushes costs the other GPU's reader nothing") {
  using namespace gpu_peer_test;
  World world(true);
  world.await_path("tier_peer_hits");
  constexpr std::uint64_t kBytes = 4 << 20;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const std::string key = "page/" + std::to_string(round);
    REQUIRE(world.put(key, kBytes, round) == Status::ok);
    for (int time = 0; time < 3; ++time) {
      CHECK(eventually([&] { return world.get(0, key, kBytes) == Status::ok; }));
    }
    CHECK(world.figure(0, "tier_used_bytes") >= kBytes);
    const std::uint64_t lost = world.figure(1, "lost");
    const auto helper = static_cast<pid_t>(world.figure(0, "helper"));
    stop_process(helper);
    const std::uint64_t in = world.figure(1, "bytes_in");
    // The piece waits at that helper until the daemon kills it for its silence.
    simm::CallOptions patient;
    patient.timeout_ms = 60'000;
    std::fill_n(world.buffers[1].seen().begin(), kBytes + 1, std::byte{0xcd});
    const Status status = world.client.get(key, View(world.regions[1], 0, kBytes), patient).status;
    CHECK(simm::status_name(status) == std::string("ok"));
    CHECK(world.shows(1, kBytes, round));
    CHECK(world.figure(1, "bytes_in") == in + kBytes);
    // The piece was lost, and made again.
    CHECK(world.figure(1, "lost") == lost + 1);
    REQUIRE(eventually([&] { return world.figure(0, "restarts") == round; }));
    CHECK(world.figure(1, "restarts") == 0);
  }
}
