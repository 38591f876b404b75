// A daemon with many small objects: each is there with its bytes, also after a kill -9 of the
// daemon; what that costs in memory and CPU time; and a person who asks is answered at once.
// SIMM_SIZE_OBJECTS says how many (100,000): 10,000,000 take 6 GiB of pool and 5 GB beside.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "simm/client.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temporary_directory.h"

namespace many_objects_test {

using simm::Status;
using simm::test_support::DaemonProcess;
using Clock = std::chrono::steady_clock;

// Time and memory of the product, not of a sanitizer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasures = false;
#else
constexpr bool kMeasures = true;
#endif
constexpr std::uint64_t kObjectBytes = 512;
constexpr std::size_t kBatch = 128;
// Several times what a quiet machine needs: other work shares its caches.
constexpr double kUsPerCallMax = 20;
constexpr double kUsPerRecoveryMax = 6;
// What DEPLOY says, with what a daemon has anyway.
constexpr std::uint64_t kTableBytesPerObject = 450;
constexpr std::uint64_t kDaemonBytes = 96 << 20;

std::uint64_t object_count() {
  const char* const given = std::getenv("SIMM_SIZE_OBJECTS");
  return given == nullptr ? 100'000 : std::stoull(given);
}

// CPU time that the process has taken.
double cpu_us(const DaemonProcess& daemon) {
  std::ifstream file("/proc/" + std::to_string(daemon.pid()) + "/stat");
  std::string text;
  std::getline(file, text);
  unsigned long long user = 0;
  unsigned long long kernel = 0;
  const char* const behind_name = text.c_str() + text.rfind(')');
  REQUIRE(std::sscanf(behind_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                      &kernel) == 2);
  return static_cast<double>(user + kernel) * 1e6 / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::uint64_t resident_bytes(const DaemonProcess& daemon) {
  std::ifstream file("/proc/" + std::to_string(daemon.pid()) + "/status");
  std::string line;
  while (std::getline(file, line)) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "VmRSS: %llu kB", &kib) == 1) return kib << 10;
  }
  return 0;
}

// Puts and gets objects whose bytes say which one it is, many in a call.
class Objects {
public:
  explicit Objects(const DaemonProcess& daemon)
      : client_(connect(daemon)), region_(allocate()), keys_(kBatch), results_(kBatch) {}

  // How many of `count` objects from `first` on, `step` apart, were stored.
  std::uint64_t put(std::uint64_t first, std::uint64_t count) {
    return run(first, count, 1, [&](std::span<const simm::Item> items) {
      for (std::size_t i = 0; i < items.size(); ++i) fill(place(i), first_ + i);
      static_cast<void>(client_.put(items, std::span(results_).first(items.size()), {}));
      return std::count_if(results_.begin(),
                           results_.begin() + static_cast<std::ptrdiff_t>(items.size()),
                           [](const auto& result) { return result.status == Status::ok; });
    });
  }
  // How many are there; one with a wrong byte fails the test.
  std::uint64_t get(std::uint64_t first, std::uint64_t count, std::uint64_t step = 1) {
    return run(first, count, step, [&](std::span<const simm::Item> items) {
      std::memset(region_.data(), 0xee, items.size() * kObjectBytes);
      static_cast<void>(client_.get(items, std::span(results_).first(items.size()), {}));
      std::ptrdiff_t there = 0;
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (results_[i].status != Status::ok) continue;
        ++there;
        std::array<std::byte, kObjectBytes> wanted;
        fill(wanted.data(), first_ + i * step);
        REQUIRE(std::memcmp(wanted.data(), place(i), kObjectBytes) == 0);
      }
      return there;
    });
  }

private:
  static simm::Client connect(const DaemonProcess& daemon) {
    simm::ClientOptions options;
    options.socket_path = daemon.socket();
    auto client = simm::Client::connect(options);
    REQUIRE(client.has_value());
    return std::move(*client);
  }
  simm::Region allocate() {
    auto region = client_.allocate_region(kBatch * kObjectBytes);
    REQUIRE(region.has_value());
    return std::move(*region);
  }
  [[nodiscard]] std::byte* place(std::size_t index) {
    return region_.data() + index * kObjectBytes;
  }
  static void fill(std::byte* at, std::uint64_t number) {
    for (std::uint64_t i = 0; i < kObjectBytes / 8; ++i) {
      const std::uint64_t word = number * 0x9e3779b97f4a7c15 + i;
      std::memcpy(at + i * 8, &word, 8);
    }
  }

  template <typename Call>
  std::uint64_t run(std::uint64_t first, std::uint64_t count, std::uint64_t step, Call&& call) {
    std::uint64_t done = 0;
    std::vector<simm::Item> items;
    for (std::uint64_t at = 0; at < count; at += kBatch) {
      first_ = first + at * step;
      items.clear();
      for (std::size_t i = 0; i < std::min<std::uint64_t>(kBatch, count - at); ++i) {
        keys_[i] = "page/" + std::to_string(first_ + i * step);
        items.push_back({keys_[i], simm::View(region_, i * kObjectBytes, kObjectBytes)});
      }
      done += static_cast<std::uint64_t>(call(items));
    }
    return done;
  }

  simm::Client client_;
  simm::Region region_;
  std::vector<std::string> keys_;
  std::vector<simm::PageResult> results_;
  std::uint64_t first_ = 0;  // of the call
};

// Whoever looks after the daemon waits for no table to be walked.
void check_reports(const DaemonProcess& daemon) {
  for (const char* const command : {"status", "stats", "sessions", "errors"}) {
    const auto begun = Clock::now();
    const bool is_report = !daemon.report(command).is_discarded();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
    CHECK_MESSAGE(is_report, command);
    CHECK_MESSAGE(took.count() < 1000, command);
  }
}

TEST_CASE("many small objects: all are there, also after a kill -9, for the memory that is told") {
  const std::uint64_t objects = object_count();
  const simm::test_support::TemporaryDirectory directory{"/dev/shm"};
  const std::uint64_t pool_mib = (objects * kObjectBytes * 5 / 4 >> 20) + 32;
  DaemonProcess daemon(R"("node": {"hugepages": "off", "pool_bytes": ")" +
                       std::to_string(pool_mib) + R"(MiB", "pool_path": ")" + directory / "pool" +
                       R"("}, "store": {"objects_max": )" + std::to_string(objects * 5 / 4) + "}");
  daemon.launch();
  REQUIRE(daemon.await_ready(120'000));
  const std::uint64_t sample = std::min<std::uint64_t>(objects, 50'000);
  const std::uint64_t step = objects / sample;
  {
    Objects client(daemon);
    double before = cpu_us(daemon);
    CHECK(client.put(0, objects) == objects);
    const double put_us = (cpu_us(daemon) - before) / static_cast<double>(objects);
    before = cpu_us(daemon);
    CHECK(client.get(0, sample, step) == sample);
    const double get_us = (cpu_us(daemon) - before) / static_cast<double>(sample);
    const std::uint64_t beside =
        resident_bytes(daemon) - std::min(resident_bytes(daemon), objects * kObjectBytes);
    MESSAGE(objects << " objects: put " << put_us << " us, get " << get_us << " us of CPU, "
                    << beside / objects << " bytes beside the payload of each");
    if (kMeasures) {
      CHECK(put_us < kUsPerCallMax);
      CHECK(get_us < kUsPerCallMax);
      CHECK(beside < objects * kTableBytesPerObject + kDaemonBytes);
    }
    check_reports(daemon);
  }
  daemon.signal(SIGKILL);
  REQUIRE(daemon.wait(60'000) == 1000 + SIGKILL);
  const auto begun = Clock::now();
  daemon.launch();
  REQUIRE(daemon.await_ready(300'000));
  const std::chrono::duration<double> ready = Clock::now() - begun;
  const double recovery_us = cpu_us(daemon) / static_cast<double>(objects);
  MESSAGE("ready after " << ready.count() << " s, " << recovery_us << " us of CPU for each object");
  // Agents publish their counters now and then.
  CHECK(simm::test_support::eventually(
      [&] { return daemon.counter("store.0.recovered") == objects; }));
  if (kMeasures && objects >= 1'000'000) CHECK(recovery_us < kUsPerRecoveryMax);
  Objects client(daemon);
  CHECK(client.get(0, sample, step) == sample);
  // More than there is room for: others go, old or new, and what is there has its bytes.
  CHECK(client.put(objects, objects / 2) == objects / 2);
  CHECK(simm::test_support::eventually([&] { return daemon.counter("store.0.evicted") > 0; }));
  const std::uint64_t there = client.get(0, sample, (objects + objects / 2) / sample);
  CHECK(there >= sample * 7 / 10);
  CHECK(there < sample);
  check_reports(daemon);
}

}  // namespace many_objects_test
