// BareEcho: what the kernel's part of a message costs: a thread that reads a message of one of many
// TCP connections over loopback and sends a short one back, and does nothing else. The baseline of
// what a manager spends on a heartbeat, on the same machine and in the same run.
// Thread: any; it has one of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simm/expected.h"

namespace simm::bench {

struct BareEcho {
  std::uint32_t connections = 1000;
  double messages_per_s = 8000;
  std::size_t message_bytes = 300;
  std::size_t answer_bytes = 100;
  double seconds = 3;
};

// CPU time of the thread that answers, for each message, in nanoseconds.
Expected<double> run_bare_echo(const BareEcho& echo);

}  // namespace simm::bench
