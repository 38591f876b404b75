// Conditions: how well the network behaves at the moment. Faults change them while a run goes on.
#pragma once

#include <cstdint>

#include "tests/sim/event_loop.h"

namespace simm::sim {

struct Conditions {
  // One message, one way.
  base::TimeNs delay_low_ns = 2 * kUs;
  base::TimeNs delay_high_ns = 30 * kUs;
  // A move copies `step_bytes` at a time; between two steps anything may happen.
  base::TimeNs step_low_ns = 200;
  base::TimeNs step_high_ns = 20 * kUs;
  std::uint32_t step_bytes_low = 64;
  std::uint32_t step_bytes_high = 4096;
  // From reset() until the path can move no byte any more.
  base::TimeNs fence_low_ns = 1 * kUs;
  base::TimeNs fence_high_ns = 2 * kMs;
  // From the end of a path until a new one may be made.
  base::TimeNs reconnect_low_ns = 0;
  base::TimeNs reconnect_high_ns = 5 * kMs;
  // Until an end notices that the other one is gone.
  base::TimeNs notice_low_ns = 10 * kUs;
  base::TimeNs notice_high_ns = 50 * kMs;

  // Over sockets: until bytes that were lost have been sent again.
  base::TimeNs repeat_low_ns = 1 * kMs;
  base::TimeNs repeat_high_ns = 1 * kSecond;

  std::uint32_t credits = 16;               // requests under way on one path
  std::uint32_t break_per_mille = 0;        // of messages: the path breaks instead
  std::uint32_t loss_per_mille = 0;         // of what is sent over a socket at one time
  std::uint32_t forge_per_mille = 0;        // likewise: somebody sends other frames behind it
  std::uint32_t late_percent = 0;           // of closed sockets: what they have sent waits long
  std::uint32_t corrupt_per_mille = 0;      // of steps: a byte flips, the transport notices
  std::uint32_t silent_flip_per_mille = 0;  // of digested pushes and moved puts: a byte flips
};

}  // namespace simm::sim
