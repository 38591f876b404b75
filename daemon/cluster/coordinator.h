// Coordinator: where managers keep what they have to remember (seam). FileCoordinator for one
// manager, EtcdCoordinator for several; one in memory for tests and the simulation. All of them run
// the suite in tests/conformance.
//
// A state has an epoch that only grows. store() is a compare-and-swap on the epoch: of two managers
// that build on the same one, one alone succeeds. So an epoch names one state for ever, and nobody
// falls back. Thread: the manager's control thread; calls may take as long as a disk does.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "daemon/base/ids.h"
#include "simm/expected.h"

namespace simm::cluster {

// A map of 1,024 members has 170 KB; etcd takes requests of 1.5 MiB.
inline constexpr std::size_t kStateBytesMax = 1 << 20;

struct StoredState {
  base::Epoch epoch = 0;
  std::vector<std::byte> bytes;  // opaque: manager_state.h

  bool operator==(const StoredState&) const = default;
};

class Coordinator {
public:
  virtual ~Coordinator() = default;

  // Nothing stored yet: nullopt. What is there but can not be trusted is an error, never a value:
  // corrupt (torn, damaged), incompatible (of another version), io_error.
  virtual Expected<std::optional<StoredState>> load() = 0;

  // Replaces the state of epoch `expected` (0: nothing stored). ok: it outlives a crash from now
  // on. invalid_state: another epoch is stored; nothing happened. Any other error: nothing
  // happened, or the new state is there though it may not be durable. Nobody has seen it through
  // this call. invalid_argument: state.epoch is not greater than `expected`, or it is too large.
  virtual Outcome store(base::Epoch expected, const StoredState& state) = 0;
};

}  // namespace simm::cluster
