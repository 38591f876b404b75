// EtcdCoordinator: the state of a cluster's managers in etcd (EtcdState), and the election of the
// one that leads (EtcdElection), on a thread of its own.
//
// A worker thread asks etcd; load() and store() wait for it, as long as the two calls of a store
// may take. What comes later than that may still happen, as the seam allows: the next call sees it.
//
// Owned by the composition root. Thread: control, but for `on_change`.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/cluster/coordinator.h"
#include "daemon/etcd/etcd_election.h"
#include "daemon/etcd/etcd_gateway.h"
#include "daemon/etcd/etcd_state.h"

namespace simm::etcd {

// Longer than others need to be elected.
inline constexpr base::TimeNs kGiveWayNs = 3 * base::kNsPerSecond;

class EtcdCoordinator final : public cluster::Coordinator {
public:
  // `self`: "name at host:port", for the key of the leader and for people.
  EtcdCoordinator(std::unique_ptr<EtcdGateway> gateway, const base::Clock& clock,
                  const std::string& cluster, const std::string& self,
                  const ElectionTimes& times = {});
  ~EtcdCoordinator() override;

  // Stands for election from now on. `on_change` is called by the worker after leadership() has
  // changed; it must not wait.
  void start(std::function<void()> on_change);
  // Resigns, and stands for no election for kGiveWayNs: this manager can not use the state that is
  // there, and another one may.
  void give_way();
  // Resigns. Idempotent; waits for a call that is under way.
  void stop();

  [[nodiscard]] Leadership leadership() const;
  // See EtcdElection.
  [[nodiscard]] base::TimeNs led_until_ns() const;

  // invalid_state or unreachable while another manager leads.
  Expected<std::optional<cluster::StoredState>> load() override;
  Outcome store(base::Epoch expected, const cluster::StoredState& state) override;

private:
  // Of the worker, which may be at it after the control thread has given up.
  struct Job {
    std::function<void()> run;
    bool is_done = false;
  };

  void work();
  // Fails without an answer in time, and at once while etcd does not answer the election.
  Outcome run(std::function<void()> work);

  const std::unique_ptr<EtcdGateway> gateway_;
  const base::TimeNs answer_ns_;
  EtcdElection election_;  // the worker's, and so is state_
  EtcdState state_;
  std::function<void()> on_change_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::shared_ptr<Job> job_;  // waits, or is under way
  Leadership leadership_;
  base::TimeNs led_until_ns_ = 0;
  bool gives_way_ = false;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace simm::etcd
