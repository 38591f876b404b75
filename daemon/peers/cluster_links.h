// ClusterLinks: the data connections of a daemon. To every member of the map that is not this
// daemon itself it keeps, for each of its own data agents, some connections to each shard: it dials
// them, hands the finished sockets to the agents, learns from them which ones were lost, and dials
// those again with back-off. Of a peer that can not be reached at all one dialer looks often; when
// it is back, the others dial at once. Sockets that other daemons dialled go to the agent of the
// shard that they name.
//
// The places of an agent are shared out, in each direction: of those for asking no peer gets more
// than its part when they are short (share_links), and of those for serving no daemon that asks
// (admit). Who is refused for that is told so in its hello, and asks again later.
//
// It also gives the members their peer numbers. The number of a member that has left the map is
// given to another one only when no connection of its is left and every agent has a newer map.
// Owned by the composition root; the mailboxes outlive its use. Thread: control.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/cluster_message.h"
#include "daemon/cluster/peer_table.h"
#include "daemon/cluster/slot_map.h"
#include "daemon/control/deadline.h"
#include "daemon/peers/asking_daemons.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/cluster_dialer.h"
#include "daemon/peers/peer_counters.h"
#include "daemon/peers/queue_pair_links.h"
#include "daemon/transport/tcp/tcp_link.h"

namespace simm::control {

// Of one data agent.
struct AgentLinks {
  transport::TcpLinkMailbox* outgoing = nullptr;  // to its TcpRequester; null: it asks nobody
  transport::TcpLinkMailbox* incoming = nullptr;  // to its TcpResponder; null: it serves no shard
  bool only_moves = false;  // it asks nobody but those whom it sends objects that move
};

class ClusterLinks final : private ClusterDialerEvents {
public:
  ClusterLinks(ClusterAccess& access, std::vector<AgentLinks> agents,
               std::uint32_t connections_per_shard, QueuePairLinks& queue_pairs);
  ClusterLinks(const ClusterLinks&) = delete;
  ClusterLinks& operator=(const ClusterLinks&) = delete;

  // A newer map. Its members have numbers afterwards and are being dialled; connections to those
  // that it does not name any more end.
  // `moves_to`: whether objects move on from here to that member.
  using MovesTo = std::function<bool(const cluster::Incarnation&)>;
  void use(const cluster::SlotMap& map, const MovesTo& moves_to = {});
  // Nothing moves any more.
  void end_moves();
  // Every data agent routes by this map, or a newer one.
  void on_agents_use(base::Epoch epoch);
  [[nodiscard]] const cluster::PeerTable& peers() const noexcept { return peers_; }

  // Whom of that map, the newest, it has connections to, from each agent that asks to each shard;
  // none: this daemon asks nobody.
  [[nodiscard]] std::optional<cluster::MemberSet> reached(const cluster::SlotMap& map) const;

  // Some connections were never tried yet: a moment later more of the map will be in reach.
  [[nodiscard]] bool is_reaching_out() const noexcept;

  // Whether another daemon may have one more data connection to that shard; if it may not because
  // others have more, it may soon.
  [[nodiscard]] bool has_room_for(const cluster::DaemonIdentity& requester, std::uint16_t shard);
  // A data connection that another daemon dialled, its hello over.
  void take(ipc::UniqueFd socket, const cluster::HelloResult& hello);
  // The same, of a connection that makes a queue pair.
  void take_queue_pair(ipc::UniqueFd socket, const cluster::HelloResult& hello);

  // Takes what the data agents have said. Call it when the bell rings.
  void deliver();
  // Dials nobody any more; what is open stays.
  void stop();

  // What is known of the connections to one daemon, of those that this one dials.
  struct PeerView {
    std::uint32_t number = 0;
    std::string name;  // empty: it has left the map
    std::string address;
    std::uint16_t shards = 0;
    std::size_t connections = 0;
    std::size_t open = 0;
    std::uint16_t version = 0;  // of the protocol, lowest of all that are open; 0: none is
    std::string trouble;        // of one that is not open
    std::size_t refused = 0;    // connections that it has no place for
  };
  [[nodiscard]] std::vector<PeerView> peer_views() const;
  // Connections that others have dialled.
  [[nodiscard]] std::size_t incoming_links() const noexcept { return incoming_.size(); }
  // JSON for `simmctl peers`.
  [[nodiscard]] std::string report() const;

  // For tests: connections that agents have now.
  [[nodiscard]] std::size_t open_links() const noexcept { return open_; }
  // For tests: peers that have left the map and whose numbers are not free yet.
  [[nodiscard]] std::size_t leaving_peers() const noexcept { return leaving_.size(); }

private:
  enum class State : std::uint8_t { dialling, waiting, open };
  // A connection that this daemon dials. `waiting`: it works, and the agent's mailbox is full.
  struct Link {
    base::PeerId peer;
    std::uint16_t shard = 0;
    std::size_t agent = 0;
    std::size_t place = 0;  // of its peer and agent
    State state = State::dialling;
    bool is_refused = false;                // the peer had no place for it
    bool is_given_back = false;             // the agent is to end it, and could not be told yet
    std::uint16_t version = 0;              // of the protocol, as the last hello has agreed
    transport::LinkKeys keys;               // of the last hello
    bool takes_moved = false;               // the same
    bool takes_traces = false;              // the same
    bool takes_tells = false;               // the same
    std::unique_ptr<ClusterDialer> dialer;  // none: its peer has left, or its place is another's
    ipc::UniqueFd socket;                   // waiting
    std::string trouble;                    // why there was no connection the last time
  };
  enum class Told : std::uint8_t { nothing, link_lost, peer_lost };
  // Whom this daemon asks.
  struct Peer {
    bool is_moved_to = false;
    Told told = Told::nothing;  // by an event that is not over
    std::size_t shards = 0;
    std::uint64_t looking = 0;               // the link whose dialer looks often while it is away
    std::size_t open = 0;                    // links
    std::vector<std::uint32_t> open_routes;  // links by agent and shard
    std::size_t reached = 0;                 // how many of those have one
    std::vector<std::vector<std::uint64_t>> places;  // links by agent and place; 0: none
  };
  struct Incoming {
    cluster::DaemonIdentity requester;
    std::uint16_t shard = 0;
    AskingDaemons::Link link;
    std::string counted_for;  // whose place it has, or had when it was told to end
    bool is_ending = false;
  };
  // The places for serving of one agent.
  struct Guests {
    std::size_t taken = 0;
    std::map<std::string, std::size_t> held;  // by full name
  };
  struct Leaving {
    base::Epoch epoch = 0;              // of the first map without it
    std::vector<std::size_t> not_told;  // agents whose mailbox was full
  };

  // ClusterDialerEvents.
  void on_dialled(ClusterDialer& dialer, ipc::UniqueFd socket,
                  const cluster::HelloResult& result) override;
  void on_dial_failed(ClusterDialer& dialer, const Error& error) override;

  [[nodiscard]] bool asks(std::size_t agent) const { return agents_[agent].outgoing != nullptr; }
  [[nodiscard]] bool is_wanted(std::size_t agent, const Peer& peer) const {
    return !agents_[agent].only_moves || peer.is_moved_to;
  }
  void share(std::size_t agent);
  void dial(base::PeerId peer, std::size_t agent, std::size_t place);
  void retire(std::uint64_t id);
  void note_open(const Link& link, int change);
  void make_room(std::uint16_t shard, const std::string& from, const std::string& to);
  void hurry(base::PeerId peer);
  void leave(base::PeerId peer, base::Epoch epoch);
  void hand_over(std::uint64_t id, Link& link);
  void flush();
  void on_lost(std::size_t agent, const transport::LinkLost& lost);
  void on_guest_lost(std::uint64_t id);
  void tell_lost(const Link& link, transport::LinkLoss cause);
  void tell_back(base::PeerId peer);
  void release_peers();
  void close(Link& link, State next);
  [[nodiscard]] bool has_links(base::PeerId peer) const;
  [[nodiscard]] bool is_reached(base::PeerId peer) const;

  ClusterAccess& access_;
  QueuePairLinks& queue_pairs_;  // learns from here whom it can reach
  const std::vector<AgentLinks> agents_;
  const std::uint32_t connections_per_shard_;
  cluster::PeerTable peers_;
  AskingDaemons asking_daemons_;
  base::Epoch agents_epoch_ = 0;
  std::uint64_t next_link_;
  std::map<std::uint64_t, Link> links_;
  std::size_t open_ = 0;                 // links_ of that state
  std::map<std::uint32_t, Peer> asked_;  // by the number of the peer
  std::map<std::uint64_t, Incoming> incoming_;
  std::vector<Guests> guests_;                // by shard
  std::map<std::uint32_t, Leaving> leaving_;  // by number
  bool has_undelivered_ = false;              // of links: a mailbox was full
  Deadline retry_;
  LinkCounters counters_;
};

}  // namespace simm::control
