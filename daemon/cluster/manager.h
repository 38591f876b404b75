// Manager: keeps the members and the slot map of a cluster. Never on the data path: when it is away
// daemons go on with the last map. No I/O and no thread of its own: connections are numbers behind
// ManagerLinks, time is a Clock, what has to outlive it goes through a Coordinator.
//
// A map is stored before anybody sees it, so an epoch names one map for ever and never goes back,
// whatever dies. A restarted manager goes on with the stored map: whoever was in it keeps its slots
// and has the whole rejoin_grace to come back. No cache loses anything by a restart. A manager
// whose state is lost takes the newest map that a member brings and goes on from there.
//
// Its maps are of a lineage, drawn when it begins without one. Who has a map of another lineage,
// which this one does not go on from, is refused: epochs of both say nothing about each other. A
// manager without a state takes such maps over for rejoin_grace, as those of its predecessor.
//
// Owned by main; all references outlive it. Thread: the control thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/agent.h"
#include "daemon/base/random.h"
#include "daemon/cluster/coordinator.h"
#include "daemon/cluster/map_pace.h"
#include "daemon/cluster/membership.h"
#include "daemon/cluster/slot_map_builder.h"

namespace simm::cluster {

struct ManagerConfig {
  MembershipConfig membership;
  base::TimeNs heartbeat_ns = kHeartbeatNsUsual;  // of a daemon, where they are few
  // Of many daemons each sends its heartbeats so much less often for each that is connected, so
  // that all together cost a fixed part of a core: 8,000 a second. At most four in the timeout of
  // a member.
  base::TimeNs heartbeat_share_ns = base::kNsPerMs / 8;
  base::TimeNs join_timeout_ns = 5 * base::kNsPerSecond;  // from the connection to the Join
  // Daemons that come within so short a time of each other share a map; nobody waits longer than
  // settle_ns_max for those who come later. Who drains waits only behind a map that is younger than
  // five times that.
  base::TimeNs settle_ns = 20 * base::kNsPerMs;
  base::TimeNs settle_ns_max = 400 * base::kNsPerMs;
  // A manager without any state waits so long after the first Join for somebody who has a map.
  base::TimeNs first_map_wait_ns = 1 * base::kNsPerSecond;
  // After a burst of maps comes one in each such interval at most (MapPace).
  base::TimeNs map_interval_ns = base::kNsPerSecond / 2;
  std::uint32_t map_burst = 4;
  Mirrors mirrors = Mirrors::anywhere;                // apart, where objects are kept twice
  base::TimeNs push_retry_ns = 300 * base::kNsPerMs;  // to a member that still has an older map
  base::TimeNs store_retry_ns = 500 * base::kNsPerMs;
  base::TimeNs answer_timeout_ns = 2 * base::kNsPerSecond;  // of a daemon that was asked
  std::uint32_t questions_max = 64;                         // passed on and not answered
};

// The way out. Neither call re-enters the manager.
class ManagerLinks {
public:
  virtual ~ManagerLinks() = default;
  // Queued; a connection that can not take it is closed by its owner, who then tells the manager.
  virtual void send(ConnectionId connection, std::span<const std::byte> message) = 0;
  // After what has been sent; on_closed() is not called for it.
  virtual void close(ConnectionId connection, const std::string& why) = 0;
};

class Manager {
public:
  Manager(const ManagerConfig& config, const base::Clock& clock, base::Random& random,
          Coordinator& coordinator, ManagerLinks& links);

  // Loads the state; nothing else may be called before. An error says why this manager must not
  // run: a state that can not be read must not be taken for an empty one.
  Outcome start();

  // An authenticated control connection; `identity` is what its hello has proved, `version` what it
  // has agreed on, `features` the bits that both know. Numbers are never used again.
  void on_connected(ConnectionId connection, const DaemonIdentity& identity, std::uint16_t version,
                    std::uint64_t features = 0);
  void on_message(ConnectionId connection, std::span<const std::byte> message);
  void on_closed(ConnectionId connection);

  // Timers and new maps. Call it after the calls above and at next_deadline_ns(). All members
  // are looked at four times in an interval of heartbeats, and when somebody joined or left. So a
  // heartbeat costs the same however many members there are.
  int do_work();
  [[nodiscard]] base::TimeNs next_deadline_ns() const;

  // Null: there is none yet.
  [[nodiscard]] const SlotMapPtr& map() const noexcept { return map_; }
  [[nodiscard]] const Lineage& lineage() const noexcept { return lineage_; }
  [[nodiscard]] const Membership& membership() const noexcept { return membership_; }
  [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }
  // Why the newest map can not be made or stored; empty: it is.
  [[nodiscard]] const std::string& store_error() const noexcept { return store_error_; }
  // The same as the answer to that question (JSON). `page`: of nodes, see Question::target.
  [[nodiscard]] std::string report(Topic topic, const std::string& page = "") const;
  // What the answer to Topic::stats says.
  [[nodiscard]] nlohmann::ordered_json numbers() const;

private:
  struct Connection {
    DaemonIdentity identity;
    std::uint16_t version = 0;  // of the protocol
    base::TimeNs since_ns = 0;
    bool joined = false;
    bool takes_deltas = false;
    bool knows_drains = false;
    // The map that it has, or will have when it has read what was sent.
    base::Epoch has_epoch = 0;
    std::uint64_t has_digest = 0;  // 0: it does not say
    HeartbeatAck told;             // the last one, or what Joined said
    base::TimeNs told_ns = 0;
    base::TimeNs pushed_ns = 0;
    bool pushed_delta = false;  // and not a whole map
  };
  struct Forwarded {
    ConnectionId requester = 0;
    std::uint64_t requester_id = 0;
    ConnectionId asked = 0;
    base::TimeNs until_ns = 0;
    Topic topic = Topic::peers;
  };

  // With what all reports begin.
  [[nodiscard]] nlohmann::ordered_json head() const;
  [[nodiscard]] std::string nodes_report(const std::string& page, std::string head) const;

  // Messages, one overload each.
  void take(ConnectionId from, const Join& join);
  void take(ConnectionId from, Connection& connection, const Heartbeat& heartbeat);
  void acknowledge(ConnectionId to, Connection& connection, std::uint64_t sequence);
  // Between two of the same daemon, as it is told.
  [[nodiscard]] base::TimeNs heartbeat_interval_ns() const;
  void take(ConnectionId from, const MapReport& report);
  void take(ConnectionId from, const Leave& leave);
  void take(ConnectionId from, const Question& question);
  void take(ConnectionId from, const Answer& answer);

  void send(ConnectionId to, const ManagerMessage& message);
  void drop(ConnectionId connection, const std::string& why);
  void refuse(ConnectionId connection, bool final, const std::string& reason);
  void push(ConnectionId to, Connection& connection);
  void push_whole(ConnectionId to, Connection& connection);
  void push_again(ConnectionId to, Connection& connection, const Heartbeat& heartbeat);
  void note_pushed(Connection& connection, bool is_delta);
  void note_delta(const SlotMap& now);
  void answer(ConnectionId to, std::uint64_t id, Status status, std::string text);
  // Whom to pass it on to; else the answer.
  [[nodiscard]] Expected<ConnectionId> addressee_of(const Question& question) const;
  [[nodiscard]] base::Epoch epoch() const noexcept { return map_ == nullptr ? 0 : map_->epoch(); }

  // Maps.
  // A member that has this map knows more than this manager does.
  [[nodiscard]] bool lacks(base::Epoch epoch, std::uint64_t digest) const noexcept;
  [[nodiscard]] bool is_stranger(const Lineage& lineage, base::Epoch epoch) const noexcept;
  [[nodiscard]] bool takes_strangers() const;
  [[nodiscard]] std::string stranger_text(const Lineage& lineage, base::Epoch epoch) const;
  [[nodiscard]] MapLife next_life();
  [[nodiscard]] std::uint64_t followed() const;
  [[nodiscard]] std::vector<MapMember> owners_of(base::Epoch next) const;
  [[nodiscard]] Expected<SlotMapPtr> next_map();
  [[nodiscard]] bool map_is_due() const;
  [[nodiscard]] base::TimeNs map_due_ns() const;
  [[nodiscard]] base::TimeNs settled_ns() const;
  int sweep();
  void note_changes();
  bool publish();
  bool put_off(const Error& cause);
  void take_over(const SlotMapPtr& map);
  void take_over_stored();
  void use(const ManagerState& state);
  int drop_late();
  int answer_late();

  const ManagerConfig config_;
  const base::Clock& clock_;
  base::Random& random_;
  Coordinator& coordinator_;
  ManagerLinks& links_;
  Membership membership_;
  std::map<ConnectionId, Connection> connections_;
  // In the order in which they came, so only the first ones are looked at. Who has joined, or is
  // closed, stays in here behind one that has not joined yet.
  std::deque<ConnectionId> unjoined_;

  SlotMapPtr map_;       // stored, and pushed
  SlotMapPtr reported_;  // what a member brought, and map_ lacks: the next one builds on it
  std::vector<Ancestor> brought_;        // lineages of such maps
  bool contested_ = false;               // such maps contradict each other: no tenure survives
  Lineage lineage_;                      // not set: unknown, or not drawn yet
  base::TimeNs strangers_until_ns_ = 0;  // 0: it began with a state
  std::uint64_t strangers_refused_ = 0;
  std::vector<std::byte> pushed_;   // map_, encoded
  std::vector<std::byte> delta_;    // the same as the difference to the map before; empty: none
  base::Epoch delta_epoch_ = 0;     // of the map before
  std::uint64_t delta_digest_ = 0;  // likewise
  base::Epoch stored_ = 0;          // epoch of the stored state
  bool issued_ = false;             // map_ is of this process, not loaded
  MapPace pace_;
  base::TimeNs changed_ns_ = 0;     // since when another map is due; 0: none is
  std::uint64_t seen_ = 0;          // revision of the owners at the last look
  base::TimeNs seen_ns_ = 0;        // when that was another one, or somebody connected
  base::TimeNs published_ns_ = 0;   // when the last map was made; 0: none was
  std::uint64_t noted_ = 0;         // revision of the owners that was compared with map_
  bool is_noted_ = false;           // and neither map_ nor reported_ is another one since
  std::uint64_t drains_noted_ = 0;  // revision for which drains_ is true or not
  bool drains_ = false;             // somebody's slots are to move at once
  base::TimeNs swept_ns_ = 0;
  base::TimeNs first_join_ns_ = 0;
  base::TimeNs store_again_ns_ = 0;
  std::string store_error_;  // empty: the last store went well
  std::map<std::uint64_t, Forwarded> forwarded_;
  std::uint64_t forwarded_ids_ = 0;
};

}  // namespace simm::cluster
