// A greedy client of one tenant beside a victim of another one, both with memory of one GPU: they
// share the helper of that GPU. The driver is that of tests/gpu.
#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "simm/client.h"
#include "tests/gpu/gpu_buffer.h"
#include "tests/siege/two_tenant_daemon.h"

namespace simm::siege {
namespace gpu_siege {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kGreedyPages = 512;
constexpr std::uint64_t kBufferBytes = 2 << 20;
constexpr int kRounds = 200;
// What is asked here is who is served at all, beside other tests: nobody runs out of patience.
constexpr std::uint32_t kPatienceMs = 60'000;

// A daemon of two tenants that use GPUs. `gpu_keys`: more of gpu.*
struct GpuDaemon : TwoTenantDaemon {
  explicit GpuDaemon(const std::string& gpu_keys = "")
      : TwoTenantDaemon(R"("gpu": {"enabled": true)" + gpu_keys +
                        R"(}, "node": {"hugepages": "off", "pool_bytes": "256MiB"},
                            "session": {"handshake_ms": 60000})") {}
  [[nodiscard]] nlohmann::json gpu() const { return report("gpus").at(0); }
};

Client connect(const std::string& socket) {
  ClientOptions options;
  options.socket_path = socket;
  options.sync_timeout_ms = kPatienceMs;
  options.connect_timeout_ms = kPatienceMs;
  auto client = Client::connect(options);
  INFO((client ? std::string() : client.error().context));
  REQUIRE(client.has_value());
  return std::move(*client);
}

// A client with memory on the GPU.
struct GpuClient {
  explicit GpuClient(const std::string& socket) : client(connect(socket)) {
    auto registered = client.register_region(buffer.pointer(), kBufferBytes);
    REQUIRE_MESSAGE(registered.has_value(), (registered ? "" : registered.error().context));
    region = std::move(*registered);
  }
  Client client;
  const gpu_tests::GpuBuffer buffer{kBufferBytes};
  Region region;
};

// Puts and gets as many small pages at a time as a call may have, until it is told to stop.
void flood(GpuClient& greedy, const std::atomic<bool>& stop) {
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < kGreedyPages; ++i) keys.push_back("greedy/" + std::to_string(i));
  std::vector<Item> items;
  for (std::uint64_t i = 0; i < kGreedyPages; ++i) {
    items.push_back({keys[i], View(greedy.region, i * kPageBytes, kPageBytes), 0, 0});
  }
  std::vector<PageResult> results(items.size());
  CallOptions hasty;  // what it gives up stays with the helper for a while
  hasty.timeout_ms = 1'000;
  while (!stop) {
    (void)greedy.client.put(items, results, hasty);
    (void)greedy.client.get(items, results, hasty);
    for (const std::string& key : keys) (void)greedy.client.remove(key);
  }
}

TEST_CASE("a client that floods the helper of a GPU leaves slots to a client of another tenant") {
  GpuDaemon daemon;
  GpuClient red(daemon.red_socket());
  GpuClient blue(daemon.blue_socket());
  std::atomic<bool> stop{false};
  std::thread attacker([&] { flood(red, stop); });
  const auto counter = [&](const char* name) {
    return daemon.counter(std::string("gpu.0.") + name);
  };
  const bool has_met_its_share =
      test_support::eventually([&] { return counter("share_waits") > 100; });
  std::uint64_t wrong = 0;
  std::uint64_t failed = 0;
  const std::span<std::byte> own = blue.buffer.seen();
  for (int round = 0; round < kRounds; ++round) {
    const auto mark = static_cast<std::byte>(round + 1);
    const std::string key = "page/" + std::to_string(round);
    std::fill_n(own.begin(), kPageBytes, mark);
    failed += blue.client.put(key, View(blue.region, 0, kPageBytes)).status != Status::ok;
    std::fill_n(own.begin() + 8192, kPageBytes, std::byte{0});
    failed += blue.client.get(key, View(blue.region, 8192, kPageBytes)).status != Status::ok;
    wrong += std::any_of(own.begin() + 8192, own.begin() + 8192 + kPageBytes,
                         [mark](std::byte byte) { return byte != mark; });
  }
  stop = true;
  attacker.join();
  CHECK(has_met_its_share);
  CHECK(wrong == 0);
  CHECK(failed == 0);
  // Nobody ever found all slots in use.
  CHECK(counter("full_waits") == 0);
  CHECK(counter("restarts") == 0);
  CHECK(daemon.alive());
}

// An object of the client's own, whose bytes are all `mark`.
Status put_object(GpuClient& owner, const std::string& key, std::byte mark, std::uint64_t bytes) {
  std::fill_n(owner.buffer.seen().begin(), bytes, mark);
  return owner.client.put(key, View(owner.region, 0, bytes)).status;
}

// Gets it; false: it fails, or is not what was put.
bool get_object(GpuClient& owner, const std::string& key, std::byte mark, std::uint64_t bytes) {
  std::fill_n(owner.buffer.seen().begin(), bytes, std::byte{0});
  const Status status = owner.client.get(key, View(owner.region, 0, bytes)).status;
  if (status != Status::ok) {
    MESSAGE("a get ended as " << status_name(status));
    return false;
  }
  const auto seen = owner.buffer.seen().first(bytes);
  const bool is_right =
      std::all_of(seen.begin(), seen.end(), [mark](std::byte byte) { return byte == mark; });
  if (!is_right) MESSAGE("a get that ended well has other bytes");
  return is_right;
}

TEST_CASE("a client that floods the tier of a GPU leaves a client of another tenant its share") {
  GpuDaemon daemon(R"(, "tier_bytes": "128MiB")");
  constexpr std::uint64_t kObjectBytes = 1 << 20;
  constexpr int kRedObjects = 100;  // more than an extent holds, less than two
  constexpr int kBlueObjects = 40;
  GpuClient red(daemon.red_socket());
  GpuClient blue(daemon.blue_socket());
  const auto key = [](int object) { return std::to_string(object); };
  const auto mark = [](int object) { return static_cast<std::byte>(object + 100); };
  for (int object = 0; object < kRedObjects; ++object) {
    REQUIRE(put_object(red, key(object), std::byte{7}, kObjectBytes) == Status::ok);
  }
  for (int object = 0; object < kBlueObjects; ++object) {
    REQUIRE(put_object(blue, key(object), mark(object), kObjectBytes) == Status::ok);
  }
  // The whole tier is red's before blue comes.
  std::uint64_t wrong = 0;
  const auto red_round = [&] {
    for (int object = 0; object < kRedObjects; ++object) {
      wrong += !get_object(red, key(object), std::byte{7}, kObjectBytes);
    }
  };
  const auto blue_round = [&] {
    for (int object = 0; object < kBlueObjects; ++object) {
      wrong += !get_object(blue, key(object), mark(object), kObjectBytes);
    }
  };
  const auto hits = [&] { return daemon.gpu().at("tier_hits").get<std::uint64_t>(); };
  for (int round = 0; round < 3; ++round) red_round();
  CHECK(hits() == kRedObjects);
  for (int round = 0; round < 2; ++round) blue_round();
  // Red goes on, and what blue has stays there.
  for (int round = 0; round < 3; ++round) red_round();
  const std::uint64_t before = hits();
  blue_round();
  CHECK(hits() - before == kBlueObjects);
  CHECK(wrong == 0);
  CHECK(daemon.gpu().at("restarts") == 0);
}

TEST_CASE("a client that floods leases of a GPU sees no other tenant's bytes, and changes none") {
  GpuDaemon daemon(R"(, "reserve_bytes": "64MiB")");
  constexpr std::uint64_t kObjectBytes = 512 << 10;
  constexpr int kObjects = 16;
  GpuClient red(daemon.red_socket());
  GpuClient blue(daemon.blue_socket());
  // The same names, and canaries of each.
  constexpr std::byte kRed{0x55};
  constexpr std::byte kBlue{0xaa};
  const auto key = [](int object) { return std::to_string(object); };
  for (int object = 0; object < kObjects; ++object) {
    REQUIRE(put_object(red, key(object), kRed, kObjectBytes) == Status::ok);
    REQUIRE(put_object(blue, key(object), kBlue, kObjectBytes) == Status::ok);
  }
  CHECK(blue.client.lend_gpu("0", 64 << 20).status() == Status::permission_denied);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> red_wrong{0};
  std::atomic<std::uint64_t> leases{0};
  std::atomic<std::uint64_t> refused{0};
  std::thread attacker([&] {
    for (int object = 0; !stop; object = (object + 1) % kObjects) {
      auto lease = red.client.lend_gpu("0", 128 << 20);
      // A helper that gets no CPU for seconds does not answer in time.
      refused += !lease.has_value() && lease.status() != Status::unreachable;
      for (int time = 0; time < 3; ++time) {
        red_wrong += !get_object(red, key(object), kRed, kObjectBytes);
      }
      leases += lease.has_value() && lease->reclaim().has_value();
    }
  });
  std::uint64_t blue_wrong = 0;
  const auto hits = [&] { return daemon.gpu().at("tier_hits").get<std::uint64_t>(); };
  for (int round = 0; round < 40 || leases < 50; ++round) {
    for (int object = 0; object < kObjects; ++object) {
      blue_wrong += !get_object(blue, key(object), kBlue, kObjectBytes);
    }
  }
  stop = true;
  attacker.join();
  CHECK(red_wrong == 0);
  CHECK(blue_wrong == 0);
  CHECK(refused == 0);
  CHECK(hits() > 0);
  const auto gpu = daemon.gpu();
  CHECK(gpu.at("lent_bytes") == 0);
  CHECK(gpu.at("tier_bytes") == 0);
  CHECK(gpu.at("restarts") == 0);
}

}  // namespace gpu_siege
}  // namespace simm::siege
