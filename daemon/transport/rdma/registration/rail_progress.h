// RailProgress: how it is about one rail: its port, and how far memory is registered with it, over
// all ranges that there are now.
// A plain value. Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace simm::transport {

struct RailProgress {
  std::string name = {};               // "mlx5_0/1"
  std::string state = "open";          // rail_state.h; "unusable": it is no rail, and never will be
  std::string trouble = {};            // why it is not open
  std::uint64_t wanted_bytes = 0;      // to be registered, or registered already
  std::uint64_t registered_bytes = 0;  // of wanted_bytes
  std::uint64_t failed_bytes = 0;      // of wanted_bytes: refused, and not tried again yet
  std::uint64_t registrations = 0;
  std::uint64_t on_demand = 0;  // of these, those whose pages the device faults in
  std::uint64_t failures = 0;   // since the start

  [[nodiscard]] std::uint64_t waiting_bytes() const noexcept {
    return wanted_bytes - registered_bytes - failed_bytes;
  }
};

}  // namespace simm::transport
