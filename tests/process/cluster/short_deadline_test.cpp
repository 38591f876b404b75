// Clients whose deadlines nobody can keep, beside one that has done nothing: they time out, and the
// connections that they share with the other one stay.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"

namespace short_deadline_test {

using namespace cluster_processes;
using simm::Status;

constexpr std::size_t kPages = 8;
constexpr std::size_t kPageBytes = 64 * 1024;
constexpr std::size_t kHastyPageBytes = 2 * 1024 * 1024;  // more than comes in a millisecond

simm::CallOptions within(std::uint32_t timeout_ms) {
  simm::CallOptions options;
  options.timeout_ms = timeout_ms;
  options.mode = simm::PutMode::replace;
  return options;
}

// A client with a batch of long pages.
struct Batch {
  Batch(const std::string& socket, const std::string& prefix, std::size_t page_bytes)
      : client(connect(socket)) {
    region = client.allocate_region(kPages * page_bytes).value();
    for (std::size_t i = 0; i < kPages; ++i) keys.push_back(prefix + std::to_string(i));
    for (std::size_t i = 0; i < kPages; ++i) {
      items.push_back({keys[i], simm::View(region, i * page_bytes, page_bytes), 0, 0});
    }
  }
  static simm::Client connect(const std::string& socket) {
    simm::ClientOptions options;
    options.socket_path = socket;
    return simm::Client::connect(options).value();
  }
  bool put(std::uint32_t timeout_ms) {
    return client.put(items, results, within(timeout_ms)) == Status::ok && all(Status::ok);
  }
  bool get(std::uint32_t timeout_ms) {
    return client.get(items, results, within(timeout_ms)) == Status::ok && all(Status::ok);
  }
  [[nodiscard]] bool all(Status status) const {
    return std::all_of(results.begin(), results.end(),
                       [&](const simm::PageResult& page) { return page.status == status; });
  }
  [[nodiscard]] std::string statuses() const {
    std::string text;
    for (const simm::PageResult& page : results) {
      text += ' ' + std::string(simm::status_name(page.status));
    }
    return text;
  }
  void fill(std::byte value) { std::fill_n(region.data(), region.size(), value); }
  [[nodiscard]] bool holds(std::byte value) const {
    return std::count(region.data(), region.data() + region.size(), value) ==
           static_cast<std::ptrdiff_t>(region.size());
  }

  simm::Client client;
  simm::Region region;
  std::vector<std::string> keys;
  std::vector<simm::Item> items;
  std::vector<simm::PageResult> results = std::vector<simm::PageResult>(kPages);
};

TEST_CASE("calls that time out after a millisecond cost the other clients no connection") {
  ClusterProcesses cluster;
  const auto storage = cluster.storage("a");
  // A cancel has half of the grace for its answer, also on a machine that is busy.
  const auto node = cluster.node("n", "0", ", \"engine\": {\"fence_grace_ms\": 20000}");
  REQUIRE(cluster.manager.start());
  REQUIRE(storage->start());
  REQUIRE(node->start());
  REQUIRE(eventually(
      [&] { return uses_the_map_of(*node, cluster.manager) && sees_members(*node, 1); }));

  std::atomic<bool> is_over{false};
  std::atomic<int> timeouts{0};
  std::vector<std::thread> hasty;
  for (const bool writes : {false, true}) {
    hasty.emplace_back([&, writes] {
      Batch batch(node->socket(), "hasty/", kHastyPageBytes);
      batch.fill(std::byte{1});
      while (!batch.put(60'000)) {
      }
      while (!is_over) {
        (void)(writes ? batch.put(1) : batch.get(1));
        if (batch.results.back().status == Status::timeout) ++timeouts;
      }
    });
  }
  // Clients of one socket share a session, and a call that the daemon leaves alone for longer than
  // its deadline and 200 ms ends that. The victim has another name for the socket, and so a session
  // of its own, as another process has.
  const auto slash = node->socket().rfind('/');
  Batch victim(node->socket().substr(0, slash) + "/." + node->socket().substr(slash), "victim/",
               kPageBytes);
  std::ostringstream failures;
  int wrong = 0;
  for (int round = 0; round < 100 || (timeouts < 200 && round < 2'000); ++round) {
    const auto value = static_cast<std::byte>(round);
    victim.fill(value);
    const bool is_put = victim.put(60'000);
    if (!is_put) failures << "put of round " << round << ": " << victim.statuses() << "\n";
    victim.fill(~value);
    if (!victim.get(60'000)) {
      failures << "get of round " << round << ": " << victim.statuses() << "\n";
    } else if (is_put && !victim.holds(value)) {  // a put that failed leaves older pages
      ++wrong;
    }
  }
  is_over = true;
  for (std::thread& one : hasty) one.join();
  MESSAGE(timeouts.load() << " calls timed out");
  CHECK(timeouts >= 200);
  INFO(node->report("errors").dump());
  CHECK(failures.str() == "");
  CHECK(wrong == 0);
  CHECK(node->counter("engine.0.resets") == 0);
  CHECK(node->counter("cluster.links.lost_reset") == 0);
}

}  // namespace short_deadline_test
