// `simmctl config check` and `simmctl secret`: files of a daemon that does not have to run. The
// rules are the daemon's own code. Thread: the main thread.
#pragma once

#include <string>

namespace simm::ctl {

// All return the exit code.
// As `simmd ROLE --check-config --config FILE` does.
[[nodiscard]] int check_config(const std::string& role, const std::string& file);
[[nodiscard]] int create_secret(const std::string& file);
[[nodiscard]] int check_secret(const std::string& file);

}  // namespace simm::ctl
