// ClusterPresence: the cluster as a daemon with data agents lives in it: its link to the manager,
// its data connections both ways, and the way of each map to its data agents.
//
//   manager ── map ──► ClusterMember ──► ClusterLinks (numbers, dials) ──► MapMailbox of each agent
//   other daemons ── data connection ──► ClusterListener ──► ClusterLinks ──► agent of the shard
//
// Owned by the composition root; what the Setup names outlives it, and the data agents' mailboxes
// its use. Thread: control.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "daemon/cluster/departure_book.h"
#include "daemon/cluster/map_mailbox.h"
#include "daemon/cluster/refill_book.h"
#include "daemon/control/admin_source.h"
#include "daemon/control/environment.h"
#include "daemon/peers/cluster_links.h"
#include "daemon/peers/cluster_listener.h"
#include "daemon/peers/cluster_settings.h"
#include "daemon/peers/load_sum.h"
#include "daemon/peers/manager_link.h"
#include "daemon/peers/manager_survey.h"
#include "daemon/peers/queue_pair_links.h"
#include "daemon/peers/slot_handover.h"

namespace simm::control {

// One data agent as its cluster sees it.
struct AgentPresence {
  AgentLinks links;
  cluster::MapMailbox* maps = nullptr;
  AgentQueuePairs queue_pairs;  // nothing where RDMA is not used
};

class ClusterPresence final : private cluster::MemberEvents, private ClusterListenerEvents {
public:
  struct Setup {
    Environment& environment;
    base::Random& random;
    const ClusterSettings& settings;
    std::vector<AgentPresence> agents;
    std::uint64_t pool_bytes = 0;               // 0: owns no slots, and listens to nobody
    std::vector<transport::RdmaDevice*> rails;  // none: RDMA is not used
    PoolKeys pool_keys;
    // This daemon's place is another one's now; it must stop.
    std::function<void(const std::string& reason)> on_expelled;
    // A newer map, before anybody uses it; false: nobody shall, this daemon stops.
    std::function<bool(const cluster::SlotMap& map)> on_map;
    ManagerLink::OnStatus on_status;
    // Asked for each heartbeat: whether the pool is still being recovered. Empty: never.
    std::function<bool()> recovers = nullptr;
    std::uint32_t grace_ms = 0;  // see MemberConfig
    bool is_replicated = false;  // some namespaces are kept twice
    // Epoch of the last map of an earlier process with this pool.
    base::Epoch last_map = cluster::RefillBook::kNoEarlierLife;
  };

  // Listens, if it owns slots. The errors are for people.
  static Expected<std::unique_ptr<ClusterPresence>> create(Setup setup);
  ClusterPresence(const ClusterPresence&) = delete;
  ClusterPresence& operator=(const ClusterPresence&) = delete;

  void start();
  // Wants no slots any more. `when_done` is called once: when it has none according to the newest
  // map and their objects are with the new owners, or, without a manager that could take them, at
  // once.
  void drain(std::function<void()> when_done);
  // Talks to nobody any more. What is still asked is answered with an error.
  void stop();

  // Takes what the data agents have said. Call it when the bell rings.
  void deliver();

  // Asks the manager, or through it the daemon `target`; the answer comes within some seconds.
  void ask(cluster::Topic topic, const std::string& target, AdminAnswer answer) {
    ask({0, topic, target}, std::move(answer));
  }
  // The same of a question that is more than that. Without a target it is about this daemon.
  void ask(cluster::Question question, AdminAnswer answer);
  // What each manager of cluster.manager says of itself; also while none of them leads.
  void ask_managers(AdminAnswer answer);
  [[nodiscard]] std::string peers() const { return links_.report(); }
  // What leaves this daemon with its slots (JSON).
  [[nodiscard]] std::string moves() const;
  [[nodiscard]] const SlotHandover& handover() const noexcept { return handover_; }
  // "unknown" when it has left the map.
  [[nodiscard]] std::string peer_name(base::PeerId peer) const;
  // What this daemon is in its cluster, and how it stands with the manager.
  [[nodiscard]] nlohmann::ordered_json membership() const;
  // One line for people.
  [[nodiscard]] std::string status() const { return manager_->status(); }

  [[nodiscard]] const ClusterLinks& links() const noexcept { return links_; }
  [[nodiscard]] const cluster::ClusterMember& member() const noexcept { return manager_->member(); }
  // Of the oldest map that a data agent uses.
  [[nodiscard]] base::Epoch agents_epoch() const;
  // Of the newest map.
  [[nodiscard]] std::uint32_t slots_here() const;

private:
  struct Asked {
    AdminAnswer answer;
    std::unique_ptr<Deadline> deadline;
  };

  explicit ClusterPresence(Setup setup);
  Outcome join();

  // MemberEvents.
  void on_map(const cluster::SlotMapPtr& map, const cluster::SlotMapPtr& before) override;
  void on_expelled(const std::string& reason) override;
  cluster::Heartbeat load() override;
  cluster::Answer answer(const cluster::Question& question) override;
  void on_answer(const cluster::Answer& answer) override;
  // ClusterListenerEvents.
  void on_accepted(ipc::UniqueFd socket, const cluster::HelloResult& result) override;
  bool has_room_for(const cluster::HelloPeer& peer, const cluster::HelloRequest& request) override;

  void tell_members(base::EventKind kind, const cluster::SlotMap& here,
                    const cluster::SlotMap& not_here);
  void spread_map();
  // Of all shards: "moves", "objects".
  [[nodiscard]] std::uint64_t sum(const char* section, const char* name) const;
  [[nodiscard]] SlotHandover::Hooks handover_hooks();
  void drop_departures();
  [[nodiscard]] bool has_moved_all() const;
  void begin_moves();
  void look_at_moves();
  void look_at_refills();
  void end_question(std::uint64_t id, Expected<std::string> text);
  void look_at_drain();

  const Setup setup_;
  ClusterAccess access_;
  QueuePairLinks queue_pairs_;
  ClusterLinks links_;
  ClusterListener listener_;
  std::unique_ptr<ManagerLink> manager_;
  ManagerSurvey survey_;
  cluster::SlotMapPtr held_;  // the newest map, while its new members are dialled
  base::TimeNs held_until_ns_ = 0;
  Deadline spread_timer_;
  cluster::DepartureBook departures_;
  cluster::RefillBook refills_;
  Deadline moves_timer_;
  Deadline refills_timer_;
  LoadSum load_sum_;
  SlotHandover handover_;
  std::uint64_t questions_ = 0;
  std::map<std::uint64_t, Asked> asked_;
  std::function<void()> when_drained_;
  Deadline drain_timer_;
};

}  // namespace simm::control
