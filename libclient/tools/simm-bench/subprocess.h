// Programs that simm-bench runs: the baselines, and the daemon. They are looked for beside the
// running program (where the build puts them all), then on PATH.
// Thread: any; a Subprocess belongs to one thread.
#pragma once

#include <sys/types.h>

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
  int stdout_fd = -1;                                            // -1: our own
  int stderr_fd = -1;
};

// Starts a program. It gets SIGTERM when we die, so that nothing is left behind.
Expected<pid_t> spawn(const std::vector<std::string>& arguments, const SpawnOptions& options = {});

// Runs a program to its end and parses what it printed as one JSON object.
Expected<nlohmann::json> run_json(const std::vector<std::string>& arguments);

}  // namespace simm::bench
