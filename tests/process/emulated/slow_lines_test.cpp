// Default options on lines that are slow, lose packets, or are away for a while: every page arrives
// that the line can carry, and a line that comes back is used at once.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/process/emulated/emulated_cluster.h"

namespace slow_lines_test {

using namespace emulated_tests;
using simm::Status;
using std::chrono::steady_clock;

constexpr std::uint64_t kRttNs = 500'000;
constexpr std::uint64_t kMillion = 1'000'000;

LineShape line_of(std::uint64_t mbit_per_s, std::uint32_t loss_ppm = 0) {
  LineShape shape;
  shape.delay_ns = kRttNs / 2;
  shape.bytes_per_s = mbit_per_s * kMillion / 8;
  shape.loss_ppm = loss_ppm;
  return shape;
}

// A process's pages of one length; options are the defaults. Nothing here is a test's assertion:
// it also runs in forked children.
class OwnPages {
public:
  static constexpr int kWrong = 100;  // above any number of failed pages

  OwnPages(const DaemonProcess& node, int process, std::size_t count, std::size_t bytes)
      : client_(connect(node)),
        region_(client_.allocate_region(count * bytes).value()),
        bytes_(bytes),
        results_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      keys_.push_back(std::to_string(process) + "/" + std::to_string(i));
    }
    for (std::size_t i = 0; i < count; ++i) {
      items_.push_back({keys_[i], simm::View(region_, i * bytes, bytes), 0, 0});
    }
  }
  // How many pages failed of a put of all.
  int put() {
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      for (std::size_t at = 0; at < bytes_; at += sizeof(std::uint64_t)) write(i, at);
    }
    static_cast<void>(client_.put(items_, results_));
    return failed();
  }
  // The same of a get; kWrong when a byte is wrong.
  int get() {
    std::memset(region_.data(), 0xee, keys_.size() * bytes_);
    static_cast<void>(client_.get(items_, results_));
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      for (std::size_t at = 0; results_[i].ok() && at < bytes_; at += sizeof(std::uint64_t)) {
        if (!is_right(i, at)) return kWrong;
      }
    }
    return failed();
  }

private:
  static simm::Client connect(const DaemonProcess& node) {
    simm::ClientOptions options;
    options.socket_path = node.socket();
    return simm::Client::connect(options).value();
  }
  [[nodiscard]] std::uint64_t word(std::size_t page, std::size_t at) const {
    return (std::hash<std::string>{}(keys_[page]) ^ at) * 0x9e3779b97f4a7c15u;
  }
  void write(std::size_t page, std::size_t at) {
    const std::uint64_t value = word(page, at);
    std::memcpy(region_.data() + page * bytes_ + at, &value, sizeof value);
  }
  [[nodiscard]] bool is_right(std::size_t page, std::size_t at) const {
    const std::uint64_t value = word(page, at);
    return std::memcmp(region_.data() + page * bytes_ + at, &value, sizeof value) == 0;
  }
  [[nodiscard]] int failed() const {
    int count = 0;
    for (const simm::PageResult& result : results_) count += result.ok() ? 0 : 1;
    return count;
  }

  simm::Client client_;
  simm::Region region_;
  std::size_t bytes_;
  std::vector<std::string> keys_;
  std::vector<simm::Item> items_;
  std::vector<simm::PageResult> results_;
};

// Processes that put `count` pages each at once and get them back: how many pages failed of each.
std::vector<int> failed_in_processes(const DaemonProcess& node, int processes, std::size_t count,
                                     std::size_t bytes) {
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      OwnPages pages(node, process, count, bytes);
      const int put = pages.put();
      ::_exit(put > 0 ? put : pages.get());
    }
    children.push_back(child);
  }
  std::vector<int> failed;
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    failed.push_back(WEXITSTATUS(status));
  }
  return failed;
}

bool is_long_form() {
  return simm::test_support::rounds_from("SIMM_ROUNDS", 1) >= 10;
}

TEST_CASE("on slow lines every page arrives, with default options, of one process and of four") {
  struct Load {
    std::uint64_t mbit_per_s;
    int processes;
    std::size_t bytes;
  };
  constexpr std::size_t kPages = 8;
  constexpr std::size_t kLong = 4'497'408;
  std::vector<Load> loads = {{50, 1, 1 << 20}, {300, 4, 1 << 20}};
  if (is_long_form()) {
    for (const std::uint64_t mbit_per_s : {50u, 100u, 300u, 1000u}) {
      for (const int processes : {1, 4}) loads.push_back({mbit_per_s, processes, kLong});
    }
  }
  for (const Load& load : loads) {
    EmulatedCluster cluster(1);
    if (!cluster.is_possible()) return;
    cluster.start();
    REQUIRE(cluster.settles());
    cluster.shape_all(line_of(load.mbit_per_s));
    CAPTURE(load.mbit_per_s);
    for (const int failed :
         failed_in_processes(cluster.node(), load.processes, kPages, load.bytes)) {
      CHECK(failed == 0);
    }
    CHECK(cluster.node().counter("cluster.links.lost_silent") == 0);
  }
}

TEST_CASE("where one packet of a hundred is lost no page fails, and nobody is taken for dead") {
  EmulatedCluster cluster(1);
  if (!cluster.is_possible()) return;
  cluster.start();
  REQUIRE(cluster.settles());
  cluster.shape_all(line_of(1000, 10'000));
  OwnPages pages(cluster.node(), 0, 16, 256 << 10);
  for (int round = is_long_form() ? 20 : 2; round > 0; --round) {
    CHECK(pages.put() == 0);
    CHECK(pages.get() == 0);
  }
  CHECK(cluster.node().counter("cluster.links.lost_silent") == 0);
}

TEST_CASE("a line that was away for a second: pages are misses meanwhile, and hits soon after it") {
  EmulatedCluster cluster(1);
  if (!cluster.is_possible()) return;
  cluster.start();
  REQUIRE(cluster.settles());
  cluster.shape_all(line_of(1000));
  OwnPages pages(cluster.node(), 0, 8, 64 << 10);
  REQUIRE(pages.put() == 0);
  REQUIRE(pages.get() == 0);
  cluster.shape_all(line_of(1000, kMillion));
  const auto away = steady_clock::now();
  while (steady_clock::now() - away < std::chrono::seconds(1)) CHECK(pages.get() == 8);
  cluster.shape_all(line_of(1000));
  const auto back = steady_clock::now();
  // What this thread sleeps longer than it wants to says how late the machine is with all others.
  std::chrono::nanoseconds late{0};
  while (pages.get() != 0 && steady_clock::now() - back < std::chrono::seconds(30)) {
    constexpr std::chrono::milliseconds kPause(5);
    const auto before = steady_clock::now();
    std::this_thread::sleep_for(kPause);
    late += steady_clock::now() - before - kPause;
  }
  // TCP sends again at most as long after the line is back as the line was away.
  CHECK(steady_clock::now() - back - late < std::chrono::seconds(2));
}

}  // namespace slow_lines_test
