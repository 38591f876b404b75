// GpuWorld: a daemon with GPU memory switched on, a client of it, and the faults of the driver in
// the daemon's helper. Thread: the test's.
#pragma once

#include <doctest/doctest.h>
#include <sys/types.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "simm/client.h"
#include "tests/gpu/gpu_buffer.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temporary_directory.h"

namespace gpu_tests {

using simm::Status;
using simm::test_support::DaemonProcess;
using simm::test_support::eventually;

// Of /proc/PID/stat: "PID (COMM) STATE PPID ...", where the 22nd is the time of its start.
struct ProcessFacts {
  std::string name;
  pid_t parent = 0;
  char state = '?';  // 'T': stopped, 'Z': dead
  std::uint64_t start = 0;
};
// `folder`: of a process, or of one of its threads.
inline ProcessFacts facts_of(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string line;
  std::getline(file, line);
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return {};
  ProcessFacts facts;
  facts.name = line.substr(open + 1, close - open - 1);
  std::istringstream rest(line.substr(close + 1));
  rest >> facts.state >> facts.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field) rest >> skipped;
  rest >> facts.start;
  return facts;
}

// The youngest child of that name that is not dead; -1: there is none. Numbers of processes begin
// anew at some time, so the largest one says nothing.
inline pid_t child_of(pid_t parent, const std::string& name) {
  std::pair<std::uint64_t, pid_t> found{0, -1};
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const ProcessFacts facts = facts_of(entry.path());
    if (facts.parent != parent || facts.name != name || facts.state == 'Z') continue;
    found = std::max(found, {facts.start, std::stoi(pid)});
  }
  return found.second;
}

// To one process. Without a process the number is -1, which means every process of this machine.
inline void send_signal(pid_t pid, int number) {
  REQUIRE(pid > 1);
  REQUIRE(::kill(pid, number) == 0);
}

// Until all its threads have stopped, so that nothing it did before comes later, and none of them
// waits for a CPU, which would excuse it.
inline void stop_process(pid_t pid) {
  send_signal(pid, SIGSTOP);
  const auto has_stopped = [pid] {
    const std::filesystem::directory_iterator threads("/proc/" + std::to_string(pid) + "/task");
    return std::all_of(begin(threads), end(threads),
                       [](const auto& thread) { return facts_of(thread.path()).state == 'T'; });
  };
  REQUIRE(eventually(has_stopped));
}

// Gets of the first pieces of the object "page", each to its own place in the region: for calls
// with `ranged`.
inline std::vector<simm::Item> pieces_of_page(const simm::Region& region, std::uint64_t count,
                                              std::uint64_t piece_bytes) {
  std::vector<simm::Item> items;
  for (std::uint64_t piece = 0; piece < count; ++piece) {
    const std::uint64_t at = piece * piece_bytes;
    items.push_back({"page", simm::View(region, at, piece_bytes), at, 0});
  }
  return items;
}

// Beside other tests: none of its calls ends because a daemon gets no CPU for a second.
inline simm::Client patient_client(const std::string& socket) {
  constexpr std::uint32_t kPatienceMs = 60'000;
  simm::ClientOptions options;
  options.socket_path = socket;
  options.sync_timeout_ms = kPatienceMs;
  options.async_timeout_ms = kPatienceMs;
  options.connect_timeout_ms = kPatienceMs;
  auto client = simm::Client::connect(options);
  INFO((client ? std::string() : client.error().context));
  REQUIRE(client.has_value());
  return std::move(*client);
}

class GpuWorld {
public:
  // `gpu_keys`: more of gpu.*. `fault`: of the driver from the start on.
  explicit GpuWorld(bool enabled = true, const std::string& keys = "",
                    const std::string& gpu_keys = "", const std::string& fault = "")
      : daemon(std::string(R"("gpu": {"enabled": )") + (enabled ? "true" : "false") + gpu_keys +
               R"(}, "node": {"hugepages": "off", "pool_bytes": "128MiB"},
                   "session": {"handshake_ms": 60000})" +
               keys) {
    daemon.set_environment("SIMM_TEST_GPU_FAULTS", faults_path());
    break_driver(fault);
    REQUIRE(daemon.start());
  }

  [[nodiscard]] simm::Client connect() const { return patient_client(daemon.socket()); }

  // What goes wrong in the helper from now on, see driver/libcuda.cpp.
  void break_driver(const std::string& line) const {
    const std::string path = faults_path();
    std::ofstream(path + ".new") << line << "\n";
    std::filesystem::rename(path + ".new", path);
  }
  void heal() const { break_driver(""); }

  // The helper's process; -1: none runs.
  [[nodiscard]] pid_t helper() const {
    const pid_t keeper = child_of(daemon.pid(), "simmd-gpus");
    return keeper < 0 ? -1 : child_of(keeper, "simmd-gpu");
  }
  // How many mappings of device memory the helper has: what keeps clients' memory.
  [[nodiscard]] int mappings() const {
    std::ifstream maps("/proc/" + std::to_string(helper()) + "/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) {
      count += line.find("simm-test-gpu-") != std::string::npos ? 1 : 0;
    }
    return count;
  }

  const simm::test_support::TemporaryDirectory directory{"/tmp"};
  [[nodiscard]] std::string faults_path() const { return directory / "faults"; }
  DaemonProcess daemon;
};

// Bytes that say which object and place they are of.
inline std::byte pattern(std::uint64_t object, std::uint64_t at) {
  return static_cast<std::byte>((object * 0x9e3779b97f4a7c15u + at * 0x2545f4914f6cdd1du) >> 56);
}

}  // namespace gpu_tests
