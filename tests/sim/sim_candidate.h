// SimCandidate: one of several managers as etcd knows it: the production election and state, over a
// SimEtcd. Thread: the one simulated thread.
#pragma once

#include "daemon/cluster/coordinator.h"
#include "daemon/etcd/etcd_election.h"
#include "daemon/etcd/etcd_state.h"
#include "tests/sim/sim_etcd.h"

namespace simm::sim {

// A virtual second costs many events: a fourth of what managers really have.
inline constexpr etcd::ElectionTimes kSimElection{1, 250 * kMs, 125 * kMs};
// By a clock of half the speed it believes for so long in a lease that is over, and looks then.
inline constexpr base::TimeNs kBeliefMaxNs = 2 * kSecond;

class SimCandidate final : public cluster::Coordinator {
public:
  SimCandidate(SimEtcd& etcd, Serial manager, const base::Clock& clock)
      : etcd_(etcd),
        client_(etcd, manager),
        manager_(manager),
        election_(client_, clock, etcd::leader_key(kEtcdCluster), std::to_string(manager),
                  kSimElection),
        state_(client_, election_, kEtcdCluster) {}

  // As EtcdElection's.
  base::TimeNs step() { return election_.step(); }
  [[nodiscard]] bool leads() const { return election_.leadership().leads; }
  [[nodiscard]] bool leads_in_etcd() { return etcd_.leader() == manager_; }
  [[nodiscard]] Serial manager() const { return manager_; }
  [[nodiscard]] SimEtcdClient& client() { return client_; }

  // Coordinator.
  Expected<std::optional<cluster::StoredState>> load() override { return state_.load(); }
  Outcome store(base::Epoch expected, const cluster::StoredState& state) override {
    return state_.store(expected, state);
  }

private:
  SimEtcd& etcd_;
  SimEtcdClient client_;
  const Serial manager_;
  etcd::EtcdElection election_;
  etcd::EtcdState state_;
};

}  // namespace simm::sim
