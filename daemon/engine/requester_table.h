// RequesterTable: which Requester (local, tcp, rdma, simulated) leads to a peer. Seam: the engine
// asks it for every request, so a peer may change its transport between two turns.
// Thread: the data agent of the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/engine/shared_read_routes.h"
#include "daemon/transport/transport.h"
#include "simm/check.h"

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

// Several transports: this daemon itself through one, other peers through whichever leads to them.
class PeerRequesters final : public RequesterTable {
public:
  // Peers are numbered below peers_max. The requesters outlive the table.
  PeerRequesters(transport::Requester& self, std::uint32_t peers_max)
      : requesters_{&self}, by_peer_(peers_max) {
    SIMM_CHECK(peers_max > 0);
    by_peer_[base::kSelf.value] = &self;
  }

  // A transport more, which gets its turns from now on. At set-up.
  void add(transport::Requester& requester) { requesters_.push_back(&requester); }
  // From now on `requester`, one of those, leads to the peer (or to kSharedReads); null: nothing
  // does.
  void lead(base::PeerId peer, transport::Requester* requester) noexcept {
    if (peer == kSharedReads) {
      shared_reads_ = requester;
      return;
    }
    SIMM_CHECK(peer.value < by_peer_.size());
    by_peer_[peer.value] = requester;
  }

  transport::Requester* find(base::PeerId peer) noexcept override {
    if (peer.value < by_peer_.size()) return by_peer_[peer.value];
    return peer == kSharedReads ? shared_reads_ : nullptr;
  }
  int do_work() noexcept override {
    int work = 0;
    for (transport::Requester* requester : requesters_) work += requester->do_work();
    return work;
  }
  // Of all of them, for the agent that gives the turns.
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept {
    base::TimeNs next_ns = base::kNoDeadline;
    for (const auto* one : requesters_) next_ns = std::min(next_ns, one->next_deadline_ns());
    return next_ns;
  }
  [[nodiscard]] bool prepare_sleep() noexcept {
    bool may_sleep = true;
    for (transport::Requester* requester : requesters_) may_sleep &= requester->prepare_sleep();
    return may_sleep;
  }

private:
  std::vector<transport::Requester*> requesters_;
  std::vector<transport::Requester*> by_peer_;
  transport::Requester* shared_reads_ = nullptr;
};

}  // namespace simm::engine
