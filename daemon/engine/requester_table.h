// RequesterTable: which Requester (local, tcp, rdma, simulated) leads to a peer. Seam: the engine
// asks it for every request, so a peer may change its transport between two turns.
// Thread: the data agent of the engine.
#pragma once

#include "daemon/transport/transport.h"

namespace simm::engine {

class RequesterTable {
public:
  virtual ~RequesterTable() = default;
  // nullptr: no path to that peer now.
  virtual transport::Requester* find(base::PeerId peer) noexcept = 0;
  // A turn of every Requester that it knows: where all upcalls to the engine come from.
  virtual int do_work() noexcept = 0;
};

// Every peer through one Requester: a daemon alone, or a simulated network.
class SoleRequester final : public RequesterTable {
public:
  explicit SoleRequester(transport::Requester& requester) noexcept : requester_(requester) {}
  transport::Requester* find(base::PeerId) noexcept override { return &requester_; }
  int do_work() noexcept override { return requester_.do_work(); }

private:
  transport::Requester& requester_;
};

}  // namespace simm::engine
