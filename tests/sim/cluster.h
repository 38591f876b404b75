// Cluster: one run of a scenario: a manager, nodes, storage servers, clients and faults under one
// seed.
//
//   storm:    clients submit random batches while faults happen
//   recovery: faults stop; every batch completes, nothing stays under way, one map is everywhere
//   calm:     single faults, one after the other, that must not move a slot
//   sweep:    quotas held; everything can be removed, leaves nothing behind, and works again
//
// Thread: the one simulated thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/sim/sim_client.h"
#include "tests/sim/sim_manager.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/troubles.h"

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
  [[nodiscard]] base::Epoch maps() const { return maps_.newest(); }

private:
  // Life and death.
  cluster::MemberConfig member_config(cluster::ClusterRole role, std::uint32_t number);
  // Which release a process is of: upgrades and downgrades are restarts.
  [[nodiscard]] std::uint16_t version_of(Serial serial) const;
  void start_manager(std::size_t place);
  void kill_manager(std::size_t place);
  // The place of the manager that leads, else of any.
  [[nodiscard]] std::size_t leading_place();
  [[nodiscard]] bool has_leader();
  [[nodiscard]] std::size_t draw_manager();
  void start_server(std::uint32_t server);
  void kill_server(std::uint32_t server);
  // With the pool of the last one of that place, if there is one that may be taken.
  [[nodiscard]] bool take_pool(std::uint32_t server);
  void end_server(SimServer& server, bool silent);
  // Somebody else has taken its place.
  void expel_server(Serial serial);
  void start_node(std::uint32_t node);
  void kill_node(std::uint32_t node);
  [[nodiscard]] std::uint64_t lease_losses() const;
  void each_server(const std::function<void(SimServer&)>& visit) const;
  void each_storage(const std::function<void(SimStorage&)>& visit) const;
  SimServer* find_server(Serial serial) const;

  // Faults: each makes itself happen again while the storm lasts.
  void start_faults();
  void repeat(base::TimeNs every_ns, void (Cluster::*fault)());
  [[nodiscard]] base::TimeNs draw_absence(base::TimeNs longest_ns);
  void crash_some_server();
  void crash_node(std::uint32_t node);
  void pause_some_node();
  void pause_some_server();
  void resume_server(Serial serial);
  void start_successor(std::uint32_t server, Serial paused);
  void drain_some_server();
  void hand_over_some_server();
  void break_some_path() { network_.break_some_path(); }
  void pull_some_cable() { network_.rdma().pull_some_cable(); }
  void hold_some_way() { network_.rdma().hold_some_way(); }
  void delay_some_fences() { network_.rdma().delay_some_fences(); }
  void cut_some_link();
  void cut_some_control();
  void slow_down();
  void crash_manager();
  void pause_manager();
  void cut_some_manager();
  void cut_all_managers();

  // Faults that wait for the moment at which they do most harm.
  enum class Doom : std::uint8_t { put_posted, put_sent, bytes_move };
  void set_aims();
  void crash_some_node();
  void crash_if_doomed(std::uint32_t node, Doom moment);
  void crash_with_last_words(const WireRequest& put);
  [[nodiscard]] bool is_doomed(std::uint32_t node, Doom moment);
  void stall_in_a_put(const WireRequest& request);
  void stall_when_read(Serial serial, std::uint64_t read_bytes);
  void hold_a_move(const WireRequest& moved);

  // Phases. False: a promise was broken.
  bool step(base::TimeNs for_ns);
  bool assemble();
  bool storm();
  bool recovery();
  void check_unity();
  void check_versions();
  bool calm();
  bool live_with_a_stranger(bool manager_dies);
  bool mislead_holder(std::size_t stopped);
  bool live_with_a_leader_without_etcd();
  void lose_lease_of_leader();
  bool live_without_server(bool drains);
  enum class HandOver : std::uint8_t { alone, manager_dies, while_joining };
  bool live_with_a_hand_over(HandOver kind);
  bool begin_drain_while_joining(SimServer& server);
  bool live_without_manager(const std::vector<Serial>& lonely, const char* who);
  bool live_with_a_damaged_pool();
  bool live_with_a_dead_node();
  bool live_with_a_put_given_up();
  bool live_with_a_late_move();
  bool live_with_a_move_that_ages();
  [[nodiscard]] bool are_told_apart() const;
  bool live_with_reads_in_a_move();
  bool remove_meanwhile();
  bool live_with_confirmed_copies();
  [[nodiscard]] bool are_mirrors_apart() const;
  [[nodiscard]] std::uint64_t lost_for_room() const;
  [[nodiscard]] std::uint64_t dropped_for_room() const;
  bool read_replicated(SimClient& client, SweptPut pages, base::TimeNs for_ns);
  [[nodiscard]] bool can_tell_of_copies() const;
  bool lose_another_owner(std::uint32_t place, SweptPut pages);
  bool live_with_an_owner_away(bool is_removed);
  bool remove_with_a_copy_on_its_way();
  bool live_with_one_owner(std::uint32_t victim);
  bool live_with_single_copies();
  bool live_with_dead_owners();
  bool read_copies(SimClient& reader, const SharedSweep& sweep, base::TimeNs for_ns);
  bool press_on_stores();
  bool remove_from_others(SimClient& reader, SimClient& writer, const SharedSweep& sweep,
                          bool is_cut);
  bool give_and_take_back_meanwhile();
  bool step_until(const std::function<bool()>& is_over, base::TimeNs longest_ns);
  bool sweep_all();
  bool sweep(SimClient& client, ipc::Opcode opcode, std::uint32_t name_space, SweptPut put = {});
  void check_quota(const SimClient& client, std::uint64_t bytes);

  const Scenario scenario_;
  EventLoop loop_;
  Report report_{loop_};
  EventLog log_;
  Dice dice_;
  Dice delta_dice_;      // of its own, so that all other draws stay what they were
  Dice hand_over_dice_;  // likewise
  Dice pool_dice_;       // likewise
  Dice aim_dice_;        // likewise
  Network network_;
  ControlNetwork control_;
  MapBook maps_{report_};
  Troubles troubles_{loop_};
  History history_;
  SimDisk disk_;  // of the only manager
  SimEtcd etcd_;  // of several
  Serial serials_ = 0;
  Serial manager_serials_ = 0;
  std::vector<std::unique_ptr<SimManager>> managers_;  // by place; null: dead
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::vector<std::unique_ptr<SimServer>> servers_;   // by number; null: dead
  std::vector<std::shared_ptr<KeptPool>> pools_;      // likewise, also of the dead
  std::vector<Serial> holders_;                       // of the places of servers_, the last ones
  std::vector<std::unique_ptr<SimServer>> sleepers_;  // paused while another one took their place
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::uint64_t dead_lease_losses_ = 0;
  std::optional<std::uint32_t> doomed_node_;
  Doom doom_ = Doom::put_posted;
  bool in_scene_ = false;  // with a fault of its own
  // An object that follows its slot, and waits on its way.
  struct HeldMove {
    std::uint32_t node = 0;
    Serial server = 0;
    base::TenantId tenant;
    std::uint32_t name_space = 0;
  };
  bool holds_next_move_ = false;
  bool holds_what_ages_ = false;  // nothing else
  std::optional<HeldMove> held_move_;
  bool stalls_next_put_ = false;
  Serial stalled_server_ = 0;  // in a scene: until that lets it go on
  Serial wishes_at_join_ = 0;  // a server that drains as soon as it has said its next Join
  bool storming_ = false;
  bool slow_ = false;
};

}  // namespace simm::sim
