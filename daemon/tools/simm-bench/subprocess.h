// Programs that simm-bench runs: the baselines, and the daemon. They are looked for beside the
// running program (where the build puts them all), then on PATH.
// Thread: any; a CapturedProcess belongs to one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "simm/expected.h"

namespace simm::bench {

// The path of `name` beside the running program, or `name` itself, to be searched on PATH.
std::string program_path(const std::string& name);

struct SpawnOptions {
  std::vector<std::pair<std::string, std::string>> environment;  // added to our own
  int cpu = -1;                                                  // pinned there; -1: not pinned
  std::string network;  // namespace to run in, as a path; empty: our own
  int stdout_fd = -1;   // -1: our own
  int stderr_fd = -1;
  std::string remedy = "build it, so that it lies beside simm-bench";  // when it can not be run
};

// Starts a program. It gets SIGTERM when we die, so that nothing is left behind.
Expected<pid_t> spawn(const std::vector<std::string>& arguments, const SpawnOptions& options = {});

// A program whose words are kept. One that still runs at the end of its object is killed.
class CapturedProcess {
public:
  struct Result {
    std::string text;
    int wait_status = 0;

    [[nodiscard]] bool ok() const noexcept { return wait_status == 0; }
  };

  // The file descriptors of `options` are not used. Without `with_errors` what it says on standard
  // error goes where ours goes.
  static Expected<CapturedProcess> start(const std::vector<std::string>& arguments,
                                         SpawnOptions options, bool with_errors);

  CapturedProcess(CapturedProcess&& other) noexcept;
  CapturedProcess& operator=(CapturedProcess&&) = delete;
  ~CapturedProcess();

  // All that it printed, once it has ended; timeout when it did not within `limit`. Once.
  Expected<Result> finish(std::chrono::seconds limit);
  // Whether it runs; once it has ended finish() does not wait.
  [[nodiscard]] bool is_running() const;

private:
  CapturedProcess(std::string name, pid_t pid, int fd)
      : name_(std::move(name)), pid_(pid), fd_(fd) {}

  std::string name_;
  pid_t pid_;
  int fd_;
};

// Runs a program to its end and parses what it printed as one JSON object.
Expected<nlohmann::json> run_json(const std::vector<std::string>& arguments);

}  // namespace simm::bench
