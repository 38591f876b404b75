// GpuWorld: a daemon with GPU memory switched on, a client of it, and the faults of the driver in
// the daemon's helper. Thread: the test's.
#pragma once

#include <doctest/doctest.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "simm/client.h"
#include "tests/gpu/gpu_buffer.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temporary_directory.h"

namespace gpu_tests {

using simm::Status;
using simm::test_support::DaemonProcess;
using simm::test_support::eventually;

// The value of a field of /proc/PID/stat's beginning: "PID (COMM) STATE PPID".
struct ProcessFacts {
  std::string name;
  pid_t parent = 0;
  char state = '?';  // 'T': stopped
};
inline ProcessFacts facts_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  std::getline(file, line);
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return {};
  ProcessFacts facts{line.substr(open + 1, close - open - 1), 0, '?'};
  if (line.size() > close + 4) {
    facts.state = line[close + 2];
    facts.parent = std::stoi(line.substr(close + 4));
  }
  return facts;
}

// The newest child of that name; -1: there is none.
inline pid_t child_of(pid_t parent, const std::string& name) {
  pid_t found = -1;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const ProcessFacts facts = facts_of(pid);
    if (facts.parent == parent && facts.name == name) found = std::max(found, std::stoi(pid));
  }
  return found;
}

class GpuWorld {
public:
  explicit GpuWorld(bool enabled = true, const std::string& keys = "")
      : daemon(std::string(R"("gpu": {"enabled": )") + (enabled ? "true" : "false") +
               R"(}, "node": {"hugepages": "off", "pool_bytes": "128MiB"})" + keys) {
    daemon.set_environment("SIMM_TEST_GPU_FAULTS", faults_path());
    heal();
    REQUIRE(daemon.start());
  }

  [[nodiscard]] simm::Client connect() const {
    simm::ClientOptions options;
    options.socket_path = daemon.socket();
    auto client = simm::Client::connect(options);
    REQUIRE(client.has_value());
    return std::move(*client);
  }

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
