// One storage daemon of four does not answer in time: what the others have is there nevertheless.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"

namespace late_page_test {

using namespace cluster_processes;
using simm::Status;

constexpr std::size_t kPages = 128;
constexpr std::size_t kPageBytes = 4096;

std::byte content(std::size_t page, std::size_t at) {
  return static_cast<std::byte>((page * 131 + at * 7) >> 3);
}

bool is_whole(const simm::Region& region, std::size_t page) {
  for (std::size_t at = 0; at < kPageBytes; ++at) {
    if (region.data()[page * kPageBytes + at] != content(page, at)) return false;
  }
  return true;
}

TEST_CASE("one of four storage daemons is stopped: the pages of the others are hits") {
  ClusterProcesses cluster;
  std::vector<std::unique_ptr<DaemonProcess>> storages;
  for (const char* name : {"a", "b", "c", "d"}) storages.push_back(cluster.storage(name));
  // The calls' own deadline ends the waiting, not the detection of dead peers.
  auto node = std::make_unique<DaemonProcess>(
      R"("cluster": {"detection_ms": 10000, "manager": ")" + cluster.address +
          R"(", "secret_file": ")" + cluster.secret.path() +
          R"(", "node_name": "n"}, "node": {"pool_bytes": "0"})",
      "node");
  REQUIRE(cluster.manager.start());
  for (const auto& storage : storages) REQUIRE(storage->start());
  REQUIRE(node->start());
  REQUIRE(eventually(
      [&] { return uses_the_map_of(*node, cluster.manager) && sees_members(*node, 4); }, 30'000));
  simm::ClientOptions options;
  options.socket_path = node->socket();
  simm::Client client = simm::Client::connect(options).value();
  simm::Region region = client.allocate_region(kPages * kPageBytes).value();
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kPages; ++i) keys.push_back("page/" + std::to_string(i));
  std::vector<simm::Item> items;
  for (std::size_t i = 0; i < kPages; ++i) {
    items.push_back({keys[i], simm::View(region, i * kPageBytes, kPageBytes), 0, 0});
    for (std::size_t at = 0; at < kPageBytes; ++at) {
      region.data()[i * kPageBytes + at] = content(i, at);
    }
  }
  std::vector<simm::PageResult> results(kPages);
  REQUIRE(eventually(
      [&] {
        REQUIRE(client.put(items, results) == Status::ok);
        return std::all_of(results.begin(), results.end(), [](auto& page) { return page.ok(); });
      },
      20'000));
  const auto on_d = storages[3]->counter("server.0.put_pages");
  REQUIRE(on_d > 0);
  REQUIRE(on_d < kPages);

  storages[3]->signal(SIGSTOP);
  std::memset(region.data(), 0xee, region.size());
  simm::CallOptions bounded;
  bounded.timeout_ms = 3000;  // for the three that answer on a busy machine
  CHECK(client.get(items, results, bounded) == Status::ok);
  std::uint64_t late = 0;
  for (std::size_t i = 0; i < kPages; ++i) {
    CAPTURE(i);
    late += results[i].status == Status::timeout ? 1u : 0u;
    if (results[i].status == Status::timeout) continue;
    REQUIRE(results[i].status == Status::ok);
    CHECK(is_whole(region, i));
  }
  CHECK(late == on_d);
  storages[3]->signal(SIGCONT);
}

}  // namespace late_page_test
