// RailState: whether a port of this daemon can be used. Plain values. Thread: any.
#pragma once

#include <cstdint>

namespace simm::transport {

// open: queue pairs can be made. down: its link is, and none can; what is connected may survive
// that. ending: its device has gone, and all that is on it has to end. waiting: it is not opened,
// and will be when that is possible.
enum class RailState : std::uint8_t { open, down, ending, waiting };

[[nodiscard]] constexpr const char* rail_state_name(RailState state) noexcept {
  switch (state) {
    case RailState::open:
      return "open";
    case RailState::down:
      return "down";
    case RailState::ending:
      return "ending";
    case RailState::waiting:
      break;
  }
  return "waiting";
}

}  // namespace simm::transport
