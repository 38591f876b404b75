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

Client connect(const std::string& socket) {
  ClientOptions options;
  options.socket_path = socket;
  auto client = Client::connect(options);
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
  while (!stop) {
    (void)greedy.client.put(items, results, {});
    (void)greedy.client.get(items, results, {});
    for (const std::string& key : keys) (void)greedy.client.remove(key);
  }
}

TEST_CASE("a client that floods the helper of a GPU leaves slots to a client of another tenant") {
  TwoTenantDaemon daemon(R"("gpu": {"enabled": true})");
  GpuClient red(daemon.red_socket());
  GpuClient blue(daemon.blue_socket());
  std::atomic<bool> stop{false};
  std::thread attacker([&] { flood(red, stop); });
  const auto counter = [&](const char* name) {
    return daemon.counter(std::string("gpu.0.") + name);
  };
  const bool has_met_its_share =
      test_support::eventually([&] { return counter("share_waits") > 100; }, 30'000);
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

}  // namespace gpu_siege
}  // namespace simm::siege
