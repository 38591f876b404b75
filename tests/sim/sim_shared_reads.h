// SimSharedReads: the shared reads of a simulated node: the production SharedReadServer with memory
// of its own, and the local transport on which the node's engine sends such reads to it.
// Belongs to a SimNode, whose engine and end of the network outlive it.
// Thread: the one simulated thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "daemon/engine/requester_table.h"
#include "daemon/engine/write_marks.h"
#include "daemon/shared_reads/shared_read_server.h"
#include "daemon/transport/local/local_mesh.h"
#include "daemon/transport/region_mover.h"
#include "tests/sim/report.h"
#include "tests/sim/scenario.h"

namespace simm::sim {

// What leads to the peers of a node, and to its own shared reads.
class NodeRequesters final : public engine::RequesterTable {
public:
  explicit NodeRequesters(transport::Requester& peers) noexcept : peers_(peers) {}
  void add_shared_reads(transport::Requester& requester) noexcept { shared_reads_ = &requester; }

  transport::Requester* find(base::PeerId peer) noexcept override {
    return peer == engine::kSharedReads ? shared_reads_ : &peers_;
  }
  int do_work() noexcept override {
    const int own = shared_reads_ == nullptr ? 0 : shared_reads_->do_work();
    return own + peers_.do_work();
  }

private:
  transport::Requester& peers_;
  transport::Requester* shared_reads_ = nullptr;
};

// Copies until its process has died.
class MortalMover final : public transport::Mover {
public:
  void die() noexcept { is_dead_ = true; }
  transport::MoveProgress step(transport::Move& move, std::uint64_t bytes_max) noexcept override {
    if (!is_dead_) return mover_.step(move, bytes_max);
    move.status = Status::transfer_failed;
    return transport::MoveProgress::done;
  }
  bool stop(transport::Move& move) noexcept override { return mover_.stop(move); }
  int do_work() noexcept override { return mover_.do_work(); }

private:
  transport::RegionMover mover_;
  bool is_dead_ = false;
};

class SimSharedReads {
public:
  SimSharedReads(const Scenario& scenario, engine::Engine& engine, const base::Clock& clock,
                 NodeRequesters& requesters);

  // What fetches write into. Devices of a process that has died may write there for a while.
  [[nodiscard]] const std::shared_ptr<std::vector<std::byte>>& memory() noexcept { return memory_; }
  // Its node has died: no page of a client is touched any more.
  void crash() noexcept { mover_.die(); }
  // Its turn comes before that of the engine.
  int do_work() noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() noexcept;
  // Nothing is under way, and its books add up.
  void check_idle(Report& report, std::uint32_t node) const;

private:
  const std::shared_ptr<std::vector<std::byte>> memory_;
  engine::WriteMarks marks_;
  MortalMover mover_;
  transport::LocalMesh mesh_;
  std::unique_ptr<shared_reads::SharedReadServer> server_;
};

}  // namespace simm::sim
