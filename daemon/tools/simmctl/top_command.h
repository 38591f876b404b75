// `simmctl top`: what a daemon does right now, anew in every interval. On a terminal the same place
// is written again; elsewhere each interval is a block of lines, or one line of JSON.
// Thread: the main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "simm/expected.h"

namespace simm::ctl {

struct TopWishes {
  double interval_s = 2;
  std::uint32_t count = 0;  // intervals; 0: until it is interrupted
  bool json = false;
};

// `ask` answers "status" and "stats" of the daemon. Returns the exit code.
[[nodiscard]] int run_top(
    const TopWishes& wishes,
    const std::function<Expected<nlohmann::ordered_json>(const std::string& command)>& ask);

}  // namespace simm::ctl
