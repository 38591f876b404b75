// `simmctl drain`: has a storage daemon hand its slots over, or take them back, and waits for the
// end if that is wanted. Thread: the main thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/tools/simmctl/report_command.h"

namespace simm::ctl {

struct DrainWishes {
  std::string daemon;    // "storage/host7" or "host7"; empty: the one that is asked
  std::string deadline;  // empty: none
  bool cancel = false;
  bool wait = false;
  bool force = false;
};

// "90", "90s", "500ms", "10m", "2h" in milliseconds; nothing: none of these, or over a day.
std::optional<std::uint32_t> duration_ms(const std::string& text);

// Returns the exit code.
[[nodiscard]] int run_drain(const AdminWishes& admin, const DrainWishes& wishes);

}  // namespace simm::ctl
