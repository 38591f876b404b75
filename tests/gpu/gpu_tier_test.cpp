// Gets into memory of a GPU whose helper has a tier: the same bytes by the tier and by the host,
// never those of an earlier object, whatever ends meanwhile.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/gpu_world.h"
#include "tests/process/cluster/cluster_processes.h"

namespace gpu_tier_test {

using namespace gpu_tests;
using simm::CallOptions;
using simm::Region;
using simm::View;

constexpr std::uint64_t kBufferBytes = 48 << 20;
constexpr const char* kTier = R"(, "tier_bytes": "128MiB", "reserve_bytes": "64MiB")";

// A client with memory of the host and of the GPU.
struct Ends {
  explicit Ends(simm::Client&& connected) : client(std::move(connected)) {
    auto gpu_made = client.register_region(buffer.pointer(), kBufferBytes);
    INFO((gpu_made ? std::string() : gpu_made.error().context));
    REQUIRE(gpu_made.has_value());
    gpu = std::move(*gpu_made);
    auto host_made = client.allocate_region(kBufferBytes);
    REQUIRE(host_made.has_value());
    host = std::move(*host_made);
  }
  explicit Ends(const GpuWorld& world) : Ends(world.connect()) {}

  simm::Status put(const std::string& key, std::uint64_t bytes, std::uint64_t object) {
    for (std::uint64_t i = 0; i < bytes; ++i) host.data()[i] = pattern(object, i);
    CallOptions options;
    options.mode = simm::PutMode::replace;
    return client.put(key, View(host, 0, bytes), options).status;
  }
  simm::Status get(const std::string& key, std::uint64_t bytes, const CallOptions& options = {}) {
    std::fill_n(buffer.seen().begin(), bytes + 1, std::byte{0xcd});
    return client.get(key, View(gpu, 0, bytes), options).status;
  }
  // The bytes of `object` at the beginning of the GPU's memory, and no other one.
  [[nodiscard]] bool shows(std::uint64_t bytes, std::uint64_t object) const {
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (buffer.seen()[i] != pattern(object, i)) return false;
    }
    return buffer.seen()[bytes] == std::byte{0xcd};
  }

  simm::Client client;
  const GpuBuffer buffer{kBufferBytes};
  Region gpu;
  Region host;
};

std::uint64_t microseconds_since(std::chrono::steady_clock::time_point began) {
  const auto took = std::chrono::steady_clock::now() - began;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(took).count());
}

std::uint64_t p99(std::vector<std::uint64_t> times) {
  if (times.empty()) return 0;
  std::sort(times.begin(), times.end());
  return times[times.size() * 99 / 100];
}

std::uint64_t figure(const simm::test_support::DaemonProcess& daemon, const char* name) {
  return daemon.report("gpus").at(0).at(name).get<std::uint64_t>();
}

}  // namespace gpu_tier_test

TEST_CASE("gpu tier: objects of all sizes, the same bytes from the host and out of the tier") {
  using namespace gpu_tier_test;
  const GpuWorld world(true, "", kTier);
  Ends ends(world);
  std::uint64_t object = 0;
  std::uint64_t crossed = 0;  // bytes of objects that are long enough for the tier
  for (const std::uint64_t bytes : {4096ul, 65'537ul, (1ul << 20) + 3, 4'500'000ul, 20ul << 20}) {
    const std::string key = "object/" + std::to_string(++object);
    REQUIRE(ends.put(key, bytes, object) == Status::ok);
    for (int time = 0; time < 4; ++time) {
      CAPTURE(time);
      REQUIRE(ends.get(key, bytes) == Status::ok);
      CHECK(ends.shows(bytes, object));
    }
    if (bytes > 16 << 10) crossed += 2 * bytes;
  }
  // The third time and the fourth one; the last of the three pieces of the long one too.
  CHECK(figure(world.daemon, "tier_hit_bytes") == crossed);
  CHECK(figure(world.daemon, "tier_admitted") == 6);
  CHECK(figure(world.daemon, "tier_bytes") == 64 << 20);
  CHECK(figure(world.daemon, "copies_in") == 4 * 7);
  CHECK(eventually([&] { return world.daemon.counter("gpu.0.tier_hit_bytes") == crossed; }));
}

TEST_CASE("gpu tier: off unless it is configured") {
  using namespace gpu_tier_test;
  const GpuWorld world;
  Ends ends(world);
  REQUIRE(ends.put("page", 1 << 20, 1) == Status::ok);
  for (int time = 0; time < 4; ++time) REQUIRE(ends.get("page", 1 << 20) == Status::ok);
  CHECK(figure(world.daemon, "tier_hits") == 0);
  CHECK(figure(world.daemon, "tier_bytes") == 0);
}

TEST_CASE("gpu tier: a put or a remove in between, and nobody sees the old object again") {
  using namespace gpu_tier_test;
  const GpuWorld world(true, "", kTier);
  Ends ends(world);
  constexpr std::uint64_t kBytes = 300'000;
  for (std::uint64_t version = 1; version <= 60; ++version) {
    REQUIRE(ends.put("page", kBytes, version) == Status::ok);
    for (std::uint64_t time = 0; time < 1 + version % 4; ++time) {
      REQUIRE(ends.get("page", kBytes) == Status::ok);
      REQUIRE(ends.shows(kBytes, version));
    }
    if (version % 5 != 0) continue;
    REQUIRE(ends.client.remove("page") == Status::ok);
    REQUIRE(ends.get("page", kBytes) == Status::not_found);
  }
  CHECK(figure(world.daemon, "tier_hits") == 15 * (1 + 2));
}

TEST_CASE("gpu tier: objects of other daemons that are read together, and writes in between") {
  using namespace gpu_tier_test;
  const simm::test_support::TemporaryDirectory none{"/tmp"};
  cluster_processes::ClusterProcesses cluster;
  REQUIRE(cluster.manager.start());
  const auto storage = cluster.storage("s");
  const auto node =
      cluster.node("n", "0", std::string(R"(, "gpu": {"enabled": true)") + kTier + "}");
  node->set_environment("SIMM_TEST_GPU_FAULTS", none / "no faults");
  REQUIRE(storage->start());
  REQUIRE(node->start());
  Ends ends(patient_client(node->socket()));
  REQUIRE(eventually([&] { return ends.put("first", 4096, 1) == Status::ok; }));
  CallOptions shared;
  shared.shared = true;
  constexpr std::uint64_t kBytes = 1'500'000;
  for (std::uint64_t version = 1; version <= 20; ++version) {
    REQUIRE(ends.put("page", kBytes, version) == Status::ok);
    for (int time = 0; time < 4; ++time) {
      REQUIRE(ends.get("page", kBytes, shared) == Status::ok);
      REQUIRE(ends.shows(kBytes, version));
    }
  }
  // Two pieces of each version, the third time and the fourth one.
  CHECK(figure(*node, "tier_hits") == 20 * 2 * 2);
}

TEST_CASE("gpu tier: a helper that dies costs the copies, and its successor makes new ones") {
  using namespace gpu_tier_test;
  const GpuWorld world(true, "", kTier);
  Ends ends(world);
  constexpr std::uint64_t kBytes = 2 << 20;
  for (std::uint64_t object = 1; object <= 8; ++object) {
    REQUIRE(ends.put(std::to_string(object), kBytes, object) == Status::ok);
  }
  std::uint64_t killed = 0;
  // The next helper works.
  const auto is_back = [&] {
    return eventually([&] {
      const auto gpu = world.daemon.report("gpus").at(0);
      return gpu.at("restarts") == killed && gpu.at("state") == "running";
    });
  };
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t object = 1 + static_cast<std::uint64_t>(round) % 8;
    if (round % 50 == 20) {
      REQUIRE(is_back());
      send_signal(world.helper(), SIGKILL);
      ++killed;
    }
    if (ends.get(std::to_string(object), kBytes) != Status::ok) continue;
    REQUIRE(ends.shows(kBytes, object));
  }
  CHECK(killed == 4);
  CHECK(is_back());
  const auto hits = [&] { return figure(world.daemon, "tier_hits"); };
  CHECK(eventually([&] { return ends.get("1", kBytes) == Status::ok; }));
  const std::uint64_t before = hits();
  CHECK(before > 0);
  for (int time = 0; time < 3; ++time) CHECK(ends.get("1", kBytes) == Status::ok);
  CHECK(hits() > before);
}

TEST_CASE("gpu tier: it is taken back under load, and no get notices") {
  using namespace gpu_tier_test;
  const GpuWorld world(true, "", kTier);
  Ends ends(world);
  constexpr std::uint64_t kBytes = 4 << 20;
  constexpr std::uint64_t kObjects = 24;  // more than an extent holds
  for (std::uint64_t object = 0; object < kObjects; ++object) {
    REQUIRE(ends.put(std::to_string(object), kBytes, object) == Status::ok);
  }
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> failed{0};
  std::vector<std::uint64_t> get_us;
  std::thread reader([&] {
    for (std::uint64_t object = 0; !stop; object = (object + 1) % kObjects) {
      const auto began = std::chrono::steady_clock::now();
      failed += ends.get(std::to_string(object), kBytes) != Status::ok;
      get_us.push_back(microseconds_since(began));
      wrong += !ends.shows(kBytes, object);
    }
  });
  // Memory of the host is none of the tier's business.
  std::vector<std::uint64_t> host_us;
  std::thread bystander([&] {
    simm::Client client = world.connect();
    auto own = client.allocate_region(kBytes);
    failed += !own.has_value();
    while (!stop && own) {
      const auto began = std::chrono::steady_clock::now();
      failed += client.get("0", View(*own, 0, kBytes)).status != Status::ok;
      host_us.push_back(microseconds_since(began));
      ::usleep(1000);
    }
  });
  const auto tier_bytes = [&] { return figure(world.daemon, "tier_bytes"); };
  std::vector<std::uint64_t> took_us;
  for (int round = 0; round < 5; ++round) {
    CHECK(eventually([&] { return tier_bytes() == 128 << 20; }));
    CHECK(world.daemon.report("gpus", round % 2 == 0 ? "0" : "0=0").is_array());
    CHECK(eventually([&] { return tier_bytes() == 0; }));
    took_us.push_back(figure(world.daemon, "tier_revoke_us"));
    CHECK(world.daemon.report("gpus", "128MiB").is_array());
  }
  stop = true;
  reader.join();
  bystander.join();
  CHECK(failed.load() == 0);
  CHECK(wrong.load() == 0);
  CHECK(world.daemon.report("gpus").at(0).at("last_error") == "");
  CHECK(figure(world.daemon, "tier_revoked_bytes") == std::uint64_t{640} << 20);
  std::sort(took_us.begin(), took_us.end());
  MESSAGE("taken back in " << took_us.front() << " to " << took_us.back() << " us; "
                           << get_us.size() << " gets into the GPU meanwhile, p99 " << p99(get_us)
                           << " us; " << host_us.size() << " of the host, p99 " << p99(host_us)
                           << " us");
  CHECK(world.daemon.ask("gpus", "7=0").find("no such GPU") != std::string::npos);
  CHECK(world.daemon.ask("gpus", "much").find("as 0 or 8GiB") != std::string::npos);
}

TEST_CASE("gpu tier: a GPU without memory, and one whose memory others need") {
  using namespace gpu_tier_test;
  // What the tests' driver counts is the helper's own.
  const GpuWorld world(true, "", kTier, "memory=140000000");
  Ends ends(world);
  constexpr std::uint64_t kBytes = 8 << 20;
  for (std::uint64_t object = 0; object < 12; ++object) {
    REQUIRE(ends.put(std::to_string(object), kBytes, object) == Status::ok);
    for (int time = 0; time < 3; ++time) {
      REQUIRE(ends.get(std::to_string(object), kBytes) == Status::ok);
      REQUIRE(ends.shows(kBytes, object));
    }
  }
  CHECK(figure(world.daemon, "tier_bytes") == 64 << 20);
  CHECK(figure(world.daemon, "tier_hits") == 12);
  CHECK(figure(world.daemon, "tier_refused") > 0);
  CHECK(eventually(
      [&] { return !world.daemon.report("events", "0 gpu_tier_small").at("events").empty(); }));
  world.break_driver("memory=100000000");
  CHECK(eventually([&] { return figure(world.daemon, "tier_bytes") == 0; }));
  CHECK(ends.get("0", kBytes) == Status::ok);
  CHECK(ends.shows(kBytes, 0));
  CHECK(eventually(
      [&] { return !world.daemon.report("events", "0 gpu_tier_revoked").at("events").empty(); }));
  CHECK(figure(world.daemon, "restarts") == 0);
}
