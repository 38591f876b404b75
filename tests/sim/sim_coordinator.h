// SimCoordinator: a Coordinator whose disk is memory that outlives the managers, and whose writes
// fail when a test or the simulation says so. Thread: the one simulated thread.
#pragma once

#include <functional>
#include <optional>

#include "daemon/cluster/coordinator.h"

namespace simm::sim {

// What a write comes to.
enum class DiskOutcome : std::uint8_t {
  written,
  failed,        // nothing happened
  written_late,  // it is there, and the caller was told that it failed
};

struct SimDisk {
  std::optional<cluster::StoredState> state;
  std::function<DiskOutcome()> next_write = [] { return DiskOutcome::written; };
  std::function<void()> on_read = [] {};
  std::function<void(const cluster::StoredState&)> on_written = [](const auto&) {};
  std::uint64_t writes = 0;
};

class SimCoordinator final : public cluster::Coordinator {
public:
  explicit SimCoordinator(SimDisk& disk) : disk_(disk) {}

  Expected<std::optional<cluster::StoredState>> load() override {
    disk_.on_read();
    return disk_.state;
  }

  Outcome store(base::Epoch expected, const cluster::StoredState& state) override {
    if (state.epoch <= expected || state.bytes.size() > cluster::kStateBytesMax) {
      return Error{Status::invalid_argument, "epoch " + std::to_string(state.epoch)};
    }
    const base::Epoch there = disk_.state ? disk_.state->epoch : 0;
    if (there != expected) {
      return Error{Status::invalid_state, "epoch " + std::to_string(there) + " is stored"};
    }
    const DiskOutcome outcome = disk_.next_write();
    if (outcome != DiskOutcome::failed) {
      disk_.state = state;
      ++disk_.writes;
      disk_.on_written(state);
    }
    if (outcome != DiskOutcome::written) return Error{Status::io_error, "the disk failed"};
    return Done{};
  }

private:
  SimDisk& disk_;
};

}  // namespace simm::sim
