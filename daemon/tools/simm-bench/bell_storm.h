// BellStorm: a hostile client for a measurement. A process of its own that attaches by hand, and
// from then on submits no-ops and rings the daemon's bell as fast as it can, until the object goes.
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "daemon/tools/simm-bench/process_group.h"
#include "daemon/tools/simm-bench/shared_array.h"

namespace simm::bench {

enum class StormPriority : std::uint8_t {
  normal,  // competes for a CPU like everybody
  idle,    // runs when its CPU is idle: what is then seen is the daemon's doing, not the kernel's
};

class BellStorm {
public:
  // Returns when the storm is blowing, or with the reason why not.
  static Outcome start(BellStorm& storm, const std::string& socket_path, int cpu,
                       StormPriority priority);

  [[nodiscard]] std::uint64_t rings() { return rings_[0]; }

private:
  SharedArray<std::atomic<std::uint64_t>> rings_{1};
  ProcessGroup process_;  // ended with it
};

}  // namespace simm::bench
