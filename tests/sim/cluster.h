// Cluster: one run of a scenario: nodes, storage servers, clients and faults under one seed.
//
//   storm:    clients submit random batches while faults happen
//   recovery: faults stop; every batch completes, nothing stays under way
//   sweep:    quotas held; everything can be removed, leaves nothing behind, and works again
//
// Thread: the one simulated thread.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/cluster_map.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_storage.h"

namespace simm::sim {

class Cluster {
public:
  Cluster(const Scenario& scenario, LogMode log_mode);
  ~Cluster();

  // The whole run; afterwards the report says whether a promise was broken.
  void run();

  [[nodiscard]] const Report& report() const { return report_; }
  [[nodiscard]] const EventLog& log() const { return log_; }
  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] std::uint64_t fingerprint() const { return loop_.fingerprint(); }
  [[nodiscard]] std::uint64_t events() const { return loop_.events(); }

private:
  struct Server {
    std::vector<std::unique_ptr<SimStorage>> shards;  // empty: dead
  };

  // Life and death.
  void start_server(std::uint32_t server);
  void kill_server(std::uint32_t server);
  void start_node(std::uint32_t node);
  void kill_node(std::uint32_t node);
  [[nodiscard]] std::uint64_t lease_losses() const;
  void each_storage(const std::function<void(SimStorage&)>& visit) const;

  // Faults: each makes itself happen again while the storm lasts.
  void start_faults();
  void repeat(base::TimeNs every_ns, void (Cluster::*fault)());
  void crash_some_server();
  void crash_some_node();
  void pause_some_server();
  void break_some_path() { network_.break_some_path(); }
  void cut_some_link();
  void slow_down();
  void change_map();
  void tell_server(std::uint32_t server, base::Epoch epoch);
  void tell_nodes(base::Epoch epoch);

  // Phases. False: a promise was broken.
  bool step(base::TimeNs for_ns);
  bool storm();
  bool recovery();
  bool sweep_all();
  bool sweep(SimClient& client, ipc::Opcode opcode, std::uint32_t name_space);
  void check_quota(const SimClient& client, std::uint64_t bytes);

  const Scenario scenario_;
  EventLoop loop_;
  Report report_{loop_};
  EventLog log_;
  Dice dice_;
  Network network_;
  History history_;
  std::vector<std::unique_ptr<ClusterMap>> maps_;  // by epoch, from 1
  base::Epoch node_epoch_ = 1;
  base::Epoch epoch_ = 1;     // what servers have, or are about to
  std::uint32_t untold_ = 0;  // servers that have not switched yet
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::uint64_t dead_lease_losses_ = 0;
  bool storming_ = false;
  bool slow_ = false;
};

}  // namespace simm::sim
