// ClusterMember: a daemon's side of the cluster: joins the manager, sends heartbeats, takes maps,
// drains, and answers what the manager passes on. It survives the manager's absence: the last map
// stays in force, and whoever dials (a seam: MemberLink) reaches the next manager with it. No I/O
// and no thread of its own. Epochs only grow here too: an older map is never taken.
//
// Owned by main; all references outlive it. Thread: the control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "daemon/cluster/cluster_message.h"
#include "daemon/cluster/hello/hello.h"

namespace simm::cluster {

struct MemberConfig {
  DaemonIdentity identity;
  // Of the data listener; weight 0: it owns no slots and only subscribes to maps.
  std::string address;
  std::uint16_t port = 0;
  std::uint16_t shards = 0;
  std::uint64_t weight_bytes = 0;
  std::uint32_t grace_ms = 0;                             // see MapMember
  base::TimeNs join_timeout_ns = 2 * base::kNsPerSecond;  // from the connection to the answer
  std::uint32_t heartbeats_missed_max = 10;  // so many intervals without an answer: dial again
};

// The one connection to the manager. Neither call re-enters the member.
class MemberLink {
public:
  virtual ~MemberLink() = default;
  virtual void send(std::span<const std::byte> message) = 0;
  // The connection is of no use; dial again after a while. on_closed() is not called for it.
  virtual void close(const std::string& why) = 0;
};

class MemberEvents {
public:
  virtual ~MemberEvents() = default;
  // A newer map. `before`: the one that it replaces, null for the first.
  virtual void on_map(const SlotMapPtr& map, const SlotMapPtr& before) = 0;
  // The manager has refused this daemon for ever: its place is another one's. It must stop.
  virtual void on_expelled(const std::string& reason) = 0;
  // Content of the next heartbeat; sequence and map_epoch do not count. Asked by on_connected()
  // too. Its load is told once a second.
  virtual Heartbeat load() = 0;
  // JSON for a question about this daemon.
  virtual Answer answer(const Question& question) = 0;
  // What became of ask().
  virtual void on_answer(const Answer& answer) = 0;
};

enum class LinkState : std::uint8_t {
  waiting = 0,   // no manager has been reached yet, there is no map
  joining = 1,   // connected, not accepted yet
  joined = 2,    // all is well
  alone = 3,     // the manager is away, the last map stays in force
  refused = 4,   // for now: asks again
  expelled = 5,  // for ever
};
const char* link_state_name(LinkState state) noexcept;

class ClusterMember {
public:
  ClusterMember(const MemberConfig& config, const base::Clock& clock, MemberLink& link,
                MemberEvents& events);

  // The link. A new connection is used at once, in place of the former one. `features`: the bits of
  // its hello that both ends know.
  void on_connected(std::uint64_t features = 0);
  void on_message(std::span<const std::byte> message);
  void on_closed();

  int do_work();
  [[nodiscard]] base::TimeNs next_deadline_ns() const;

  // This daemon is about to stop: from now on it wants no slots.
  void drain();
  [[nodiscard]] bool draining() const noexcept { return draining_; }
  // Of the configured weight this daemon wants slots for so much from now on; 0: for none, as with
  // drain(). Another manager hears the same.
  void want_weight(std::uint64_t weight_bytes);
  // What the newest map gives it slots for; 0: it is not in there.
  [[nodiscard]] std::uint64_t weight_in_map() const noexcept;
  // Tells the manager now what load() says.
  void report_load();
  // The manager passes drains on, and its maps say what they follow.
  [[nodiscard]] bool manager_knows_drains() const noexcept {
    return state_ == LinkState::joined && (features_ & kFeatureDrains) != 0;
  }
  // There is a map, and this daemon is not in it.
  [[nodiscard]] bool owns_nothing() const noexcept;

  // Asks the manager, or through it a daemon; the answer comes by on_answer(). unreachable: no
  // manager is there now; invalid_argument: the target is too long.
  Status ask(const Question& question);

  [[nodiscard]] LinkState state() const noexcept { return state_; }
  // Why it is refused, expelled or alone; for people.
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  // Since when it is in that state.
  [[nodiscard]] base::TimeNs state_since_ns() const noexcept { return state_since_ns_; }
  // Null: there is none yet.
  [[nodiscard]] const SlotMapPtr& map() const noexcept { return map_; }
  [[nodiscard]] base::Epoch epoch() const noexcept { return map_ == nullptr ? 0 : map_->epoch(); }
  // The protocol version that all daemons of the cluster speak, as its manager says; what is new in
  // a later one must not be done. The lowest one until a manager has said it.
  [[nodiscard]] std::uint16_t cluster_version() const noexcept { return cluster_version_; }
  [[nodiscard]] const MemberConfig& config() const noexcept { return config_; }

  // For so long the words of a manager that led stay, while others say that they stand by: longer
  // than a round of five managers takes.
  static constexpr base::TimeNs kRefusalShownNs = 10 * base::kNsPerSecond;

  // Without an answer for longer than that, and to so many heartbeats at least, the manager is
  // lost.
  static constexpr base::TimeNs kPatienceNsMax = 1 * base::kNsPerSecond;
  static constexpr std::uint32_t kHeartbeatsMissedMin = 4;

private:
  void take(const Joined& joined);
  void take(const Refused& refused);
  void take(const HeartbeatAck& ack);
  void take(const MapPush& push);
  void take(const MapDelta& delta);
  void take(const MapWanted& wanted);
  void take(const Question& question);
  void take(const Answer& answer);

  // What the manager has been told.
  struct Wish {
    std::uint64_t weight_bytes = 0;
    bool draining = false;
    bool operator==(const Wish&) const = default;
  };
  [[nodiscard]] Wish wish() const noexcept { return {wanted_bytes_, draining_}; }
  void say_wish();
  void send_join();

  void send(const MemberMessage& message);
  void enter(LinkState state, std::string reason);
  void lose_link(std::string reason);
  void send_heartbeat();
  // So long without a word of the manager: dial again.
  [[nodiscard]] base::TimeNs patience_ns() const noexcept;
  void use(SlotMapPtr map);
  void note_version(std::uint16_t of_cluster) noexcept;

  const MemberConfig config_;
  const base::Clock& clock_;
  MemberLink& link_;
  MemberEvents& events_;
  LinkState state_ = LinkState::waiting;
  std::string reason_;
  std::string refusal_;          // the last one by a manager that leads; empty: joined since
  base::TimeNs refusal_ns_ = 0;  // when it came
  base::TimeNs state_since_ns_;
  bool connected_ = false;
  bool draining_ = false;
  std::uint64_t wanted_bytes_;  // of the weight
  Wish said_;
  std::uint64_t features_ = 0;  // of the connection
  base::TimeNs connected_ns_ = 0;
  base::TimeNs heartbeat_ns_ = 0;       // interval, as the manager wants it
  base::TimeNs next_heartbeat_ns_ = 0;  // when
  base::TimeNs load_due_ns_ = 0;        // from when on a heartbeat has the whole load again
  base::TimeNs heard_ns_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint16_t cluster_version_ = kHelloVersionMin;
  SlotMapPtr map_;
  bool wants_map_ = false;  // the last delta was about another map
};

}  // namespace simm::cluster
