// One storage daemon of four does not answer in time: what the others have is there nevertheless.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/cluster/cluster_processes.h"
#include "tests/support/paths.h"

namespace late_page_test {

using namespace cluster_processes;
using simm::Status;
using simm::test_support::program;

constexpr std::size_t kPages = 128;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kTries = 20;

std::byte content(std::size_t page, std::size_t at) {
  return static_cast<std::byte>((page * 131 + at * 7) >> 3);
}

bool is_whole(const simm::Region& region, std::size_t page) {
  for (std::size_t at = 0; at < kPageBytes; ++at) {
    if (region.data()[page * kPageBytes + at] != content(page, at)) return false;
  }
  return true;
}

// A client's own copy of all pages, and the answers to its last call.
struct Reader {
  Reader(const DaemonProcess& node, const std::vector<std::string>& keys)
      : client(connect(node)),
        region(client.allocate_region(kPages * kPageBytes).value()),
        results(kPages) {
    for (std::size_t i = 0; i < kPages; ++i) {
      items.push_back({keys[i], simm::View(region, i * kPageBytes, kPageBytes), 0, 0});
    }
  }
  static simm::Client connect(const DaemonProcess& node) {
    simm::ClientOptions options;
    options.socket_path = node.socket();
    options.lanes = kTries + 4;  // none waits for another one's lane
    return simm::Client::connect(options).value();
  }
  simm::Client client;
  simm::Region region;
  std::vector<simm::Item> items;
  std::vector<simm::PageResult> results;
  Status status = Status::io_error;
};

// What late_pages.c prints, a line for each try.
std::vector<std::string> tries_of_the_c_program(const DaemonProcess& node) {
  const std::string command = "SIMM_SOCKET=" + node.socket() + " " +
                              program("process_c_late_pages") + " " + std::to_string(kTries) + " " +
                              std::to_string(kPages);
  std::vector<std::string> lines;
  FILE* const output = ::popen(command.c_str(), "r");
  REQUIRE(output != nullptr);
  std::array<char, 4 * kPages> line;
  while (std::fgets(line.data(), static_cast<int>(line.size()), output) != nullptr) {
    lines.emplace_back(line.data());
  }
  CHECK(::pclose(output) == 0);
  return lines;
}

// A daemon under TSan beside other tests is silent for longer than a call may outlast its deadline.
#if defined(__SANITIZE_THREAD__)
constexpr bool kIsTooSlow = true;
#else
constexpr bool kIsTooSlow = false;
#endif

TEST_CASE("one of four storage daemons is stopped: the pages of the others are hits" *
          doctest::skip(kIsTooSlow)) {
  ClusterProcesses cluster;
  std::vector<std::unique_ptr<DaemonProcess>> storages;
  for (const char* name : {"a", "b", "c", "d"}) storages.push_back(cluster.storage(name));
  // The calls' own deadline ends the waiting, not the detection of dead peers.
  cluster.detection_ms = 40'000;
  const auto node = cluster.node("n");
  REQUIRE(cluster.manager.start());
  for (const auto& storage : storages) REQUIRE(storage->start());
  REQUIRE(node->start());
  REQUIRE(eventually(
      [&] { return uses_the_map_of(*node, cluster.manager) && sees_members(*node, 4); }));
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kPages; ++i) keys.push_back("page/" + std::to_string(i));
  Reader writer(*node, keys);
  std::vector<simm::PageResult>& results = writer.results;
  for (std::size_t i = 0; i < kPages; ++i) {
    for (std::size_t at = 0; at < kPageBytes; ++at) {
      writer.region.data()[i * kPageBytes + at] = content(i, at);
    }
  }
  REQUIRE(eventually([&] {
    REQUIRE(writer.client.put(writer.items, results) == Status::ok);
    return std::all_of(results.begin(), results.end(), [](auto& page) { return page.ok(); });
  }));
  const auto on_d = storages[3]->counter("server.0.put_pages");
  REQUIRE(on_d > 0);
  REQUIRE(on_d < kPages);

  std::vector<std::unique_ptr<Reader>> tries;
  for (std::size_t i = 0; i < kTries; ++i) tries.push_back(std::make_unique<Reader>(*node, keys));
  storages[3]->signal(SIGSTOP);
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < kTries; ++i) {
    callers.emplace_back([&one = *tries[i], i] {
      simm::CallOptions bounded;
      // Long, for the three that answer on a busy machine; and the calls do not end all at once.
      bounded.timeout_ms = static_cast<std::uint32_t>(8000 + 100 * i);
      one.status = one.client.get(one.items, one.results, bounded);
    });
  }
  const std::vector<std::string> lines = tries_of_the_c_program(*node);
  for (std::thread& caller : callers) caller.join();
  const auto pages_of_d = static_cast<std::ptrdiff_t>(on_d);
  const std::ptrdiff_t pages_of_others = static_cast<std::ptrdiff_t>(kPages) - pages_of_d;
  CHECK(lines.size() == kTries);
  for (const std::string& line : lines) {
    CAPTURE(line);
    CHECK(line.rfind("0 ", 0) == 0);
    CHECK(std::count(line.begin(), line.end(), '-') == pages_of_d);
    CHECK(std::count(line.begin(), line.end(), '+') == pages_of_others);
  }
  for (const auto& reader : tries) {
    CHECK(reader->status == Status::ok);
    std::uint64_t late = 0;
    for (std::size_t i = 0; i < kPages; ++i) {
      CAPTURE(i);
      late += reader->results[i].status == Status::timeout ? 1u : 0u;
      if (reader->results[i].status == Status::timeout) continue;
      REQUIRE(reader->results[i].status == Status::ok);
      CHECK(is_whole(reader->region, i));
    }
    CHECK(late == on_d);
  }
  storages[3]->signal(SIGCONT);
}

}  // namespace late_page_test
