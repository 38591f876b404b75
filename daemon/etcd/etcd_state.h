// EtcdState: the state of a cluster's managers in etcd. A store happens only while the state is the
// one that was expected, and while this manager leads, in one transaction: so a manager that was
// stopped and believes that it leads changes nothing.
//
//   /simm/<cluster>/state   the envelope of state_envelope.h
//   /simm/<cluster>/leader  name and address of the manager that leads, bound to a lease
//
// Owned by EtcdCoordinator. Thread: its worker.
#pragma once

#include <optional>
#include <string>

#include "daemon/cluster/coordinator.h"
#include "daemon/etcd/etcd_calls.h"
#include "daemon/etcd/etcd_election.h"

namespace simm::etcd {

[[nodiscard]] std::string state_key(const std::string& cluster);
[[nodiscard]] std::string leader_key(const std::string& cluster);

class EtcdState {
public:
  // Both outlive it.
  EtcdState(EtcdCalls& calls, const EtcdElection& election, const std::string& cluster)
      : calls_(calls), election_(election), key_(state_key(cluster)) {}

  // As the Coordinator's.
  [[nodiscard]] Expected<std::optional<cluster::StoredState>> load();
  [[nodiscard]] Outcome store(base::Epoch expected, const cluster::StoredState& state);

private:
  [[nodiscard]] Expected<std::optional<cluster::StoredState>> open(
      const std::optional<EtcdValue>& value) const;

  EtcdCalls& calls_;
  const EtcdElection& election_;
  const std::string key_;
};

}  // namespace simm::etcd
