// QueuePairLinks: the RDMA connections of a daemon's data agents. Where a data connection has shown
// that a shard of a peer has RDMA ports, too, it connects a queue pair with it over each port of
// this daemon, or over some where an agent has no room for all (rail_share.h): both ends make one,
// tell each other its address over a connection of purpose queue_pair (queue_pair_message.h), and
// hand it to their data agents. That connection stays: when it ends, so does the queue pair at the
// other end, and one that broke is made anew with back-off. Until then, and where it does not work,
// requests go over TCP.
//
// A port comes and goes (rail_device.h). One that is not open connects nobody, in no direction;
// when its device has gone, all that is on it ends.
//
// What a device does may take long, so it is done on threads of this object's own, one for each
// rail: a port that is sick keeps no other one waiting. Where a port is in its network is read anew
// for each queue pair.
// Owned by ClusterPresence; the mailboxes and devices outlive it. Thread: control.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/cluster/slot_map.h"
#include "daemon/control/job_thread.h"
#include "daemon/peers/asking_daemons.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/cluster_channel.h"
#include "daemon/peers/cluster_dialer.h"
#include "daemon/peers/path_trials.h"
#include "daemon/peers/peer_counters.h"
#include "daemon/peers/queue_pair_message.h"
#include "daemon/peers/queue_pair_places.h"
#include "daemon/peers/rail_share.h"
#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/rdma_link.h"
#include "daemon/transport/rdma/registration/chunk_table.h"

namespace simm::control {

// Of one data agent.
struct AgentQueuePairs {
  transport::RdmaLinkMailbox* outgoing = nullptr;  // null: it asks nobody
  std::vector<transport::RdmaPort*> asking;        // by rail
  transport::RdmaLinkMailbox* incoming = nullptr;  // null: it serves no shard
  std::vector<transport::RdmaPort*> serving;       // by rail
  std::size_t room = 0;                            // links that it takes each way
};

// Whether all memory that is served is registered with that rail: all, later, or failed, which is
// tried again since it was asked for.
using PoolKeys = std::function<transport::KeysFound(std::size_t rail)>;

struct QueuePairSetup {
  std::vector<transport::RdmaDevice*> rails;  // none: RDMA is not used
  std::vector<AgentQueuePairs> agents;
  PoolKeys pool_keys;
  // For what the other end has to do: answer an offer, make one when it has connected, hang up
  // when it was refused. Its device may be slow.
  base::TimeNs patience_ns = 5 * base::kNsPerSecond;
  // Before the next attempt at a server that has no room; up to twice as long. One that is not
  // ready is asked sooner at first, and then as seldom.
  base::TimeNs room_wait_ns = 5 * base::kNsPerSecond;
  // Before the next attempt over a port from where no other end was ever heard, at first; up to 32
  // times as long. A device of the peer that was reset is soon back; a wrong fabric stays wrong.
  base::TimeNs unheard_wait_ns = base::kNsPerSecond;
};

class QueuePairLinks final : private ClusterDialerEvents, private ClusterChannelEvents {
public:
  QueuePairLinks(ClusterAccess& access, base::Log& log, QueuePairSetup setup);
  ~QueuePairLinks() override;
  QueuePairLinks(const QueuePairLinks&) = delete;
  QueuePairLinks& operator=(const QueuePairLinks&) = delete;

  [[nodiscard]] bool is_used() const noexcept { return !setup_.rails.empty(); }

  // That shard of that peer was reached from that agent, and has RDMA ports. Any number of times.
  void reach(base::PeerId peer, const cluster::MapMember& member, std::uint16_t shard,
             std::size_t agent);
  // The peer has left the map: its queue pairs end.
  void leave(base::PeerId peer);
  [[nodiscard]] bool has_links(base::PeerId peer) const;
  // A connection of that purpose that another daemon dialled, its hello over.
  void take(ipc::UniqueFd socket, const cluster::HelloResult& hello, AskingDaemons::Link owned);

  // Takes what the data agents have said, and looks at the rails. Call it when the bell rings.
  void deliver();
  void stop();

  struct View {
    std::size_t connections = 0;
    std::size_t open = 0;
    std::string trouble;  // of one that is not open
  };
  // Of those that this daemon dials, by number of the peer.
  [[nodiscard]] std::map<std::uint32_t, View> views() const;
  // Of those that others have dialled, by their name.
  [[nodiscard]] std::map<std::string, std::size_t> requesters() const;

private:
  enum class State : std::uint8_t {
    dialling,    // the dialer's
    offering,    // a queue pair is being made, or its address is with the other end
    connecting,  // it is being connected
    open,        // the agent's
    ending,      // the agent was told to end it, or will be
  };
  // To connect a link once. Gone when the attempt is over: then its job need not begin.
  struct Attempt {};
  struct Link {
    bool is_outgoing = false;
    base::PeerId peer;
    std::uint16_t shard = 0;
    std::size_t agent = 0;
    std::size_t rail = 0;
    State state = State::dialling;
    std::shared_ptr<Attempt> attempt;       // of the job that is under way
    std::unique_ptr<ClusterDialer> dialer;  // outgoing; none: its peer has left
    std::unique_ptr<ClusterChannel> channel;
    std::unique_ptr<Deadline> deadline;  // of what the other end has to do
    std::unique_ptr<transport::RdmaLink> made;
    transport::LinkKeys keys;           // of the last hello
    cluster::DaemonIdentity requester;  // incoming
    AskingDaemons::Link owned;          // incoming
    QueuePairPlaces::Place place;       // incoming: it was admitted
    std::uint32_t full_answers = 0;     // outgoing: how often in a row the server had no room
    std::uint32_t late_answers = 0;     // ... and how often it was not ready
    std::uint64_t features = 0;         // outgoing: that both ends have
    PathTrials trials;                  // outgoing
    std::string trouble;                // why there was none the last time
  };
  // A shard of a peer that an agent has reached. By number: in the order in which that was.
  struct Route {
    base::PeerId peer;
    std::uint16_t shard = 0;
    std::size_t agent = 0;
    DialTarget target;                 // but for the number of the link
    std::vector<std::uint64_t> links;  // by rail; 0: none
  };
  using Made = Expected<std::unique_ptr<transport::RdmaLink>>;
  using Links = std::map<std::uint64_t, Link>;
  using Then = void (QueuePairLinks::*)(std::uint64_t, Link&, Made);
  // What a thread has done for a link.
  struct Result {
    std::uint64_t link = 0;
    std::weak_ptr<Attempt> attempt;
    Then then = nullptr;
    Made made;
  };

  // ClusterDialerEvents.
  void on_dialled(ClusterDialer& dialer, ipc::UniqueFd socket,
                  const cluster::HelloResult& result) override;
  void on_dial_failed(ClusterDialer& dialer, const Error& error) override;
  // ClusterChannelEvents.
  void on_message(ClusterChannel& channel, std::span<const std::byte> payload) override;
  void on_closed(ClusterChannel& channel, const Error& cause) override;

  void look_at_rails();
  [[nodiscard]] bool is_open(std::size_t rail) const noexcept {
    return rail_states_[rail] == transport::RailState::open;
  }
  // Its place among the rails that are open.
  [[nodiscard]] std::size_t place_of(std::size_t rail) const noexcept;
  // The open one that reaches that end.
  [[nodiscard]] std::optional<std::size_t> rail_to(const transport::QueuePairAddress& far,
                                                   std::size_t place) const;
  // Gives the routes of that agent their shares of its room.
  void share(std::size_t agent);
  [[nodiscard]] RailShare share_of(std::size_t agent) const {
    const auto open =
        std::count(rail_states_.begin(), rail_states_.end(), transport::RailState::open);
    const std::size_t usable = std::max<std::size_t>(static_cast<std::size_t>(open), 1);
    return share_rails(shared_[agent].routes, usable, setup_.agents[agent].room);
  }
  // `left`: how many of them.
  void give_rails(std::uint64_t number, Route& route, std::size_t left);
  // Whether a route keeps that link, or may have one, over that rail.
  [[nodiscard]] bool may_use(std::size_t rail, std::uint64_t link) const;
  void dial(Route& route, std::size_t rail);
  // Its route has no link there any more.
  void forget(std::uint64_t id);
  // No other attempt; what is open ends.
  Links::iterator retire(Links::iterator at);
  // Another link of the same route works.
  [[nodiscard]] bool has_another(std::uint64_t id, const Link& link) const;
  // Whether the agent has a place for that link, which its requester shall have.
  bool admits(Link& link);
  // Ends any link of one requester to that agent, for another one.
  void take_place(const std::string& from, std::size_t agent, const std::string& to);

  Links::iterator find(const ClusterChannel& channel) {
    const auto found = links_.find(channel.number());
    const bool is_its = found != links_.end() && found->second.channel.get() == &channel;
    return is_its ? found : links_.end();
  }
  // Runs `work` on the thread of the link's rail, and then `then` here, while the link is still at
  // this attempt.
  void run(std::uint64_t id, std::function<Made()> work, Then then);
  // ... a queue pair of its own; with `far`, connected to that.
  void make(std::uint64_t id, std::optional<transport::QueuePairAddress> far, Then then);
  void take_result();
  void on_made(std::uint64_t id, Link& link, Made made);
  void take_offer(std::uint64_t id, Link& link, std::span<const std::byte> payload);
  void take_answer(std::uint64_t id, Link& link, std::span<const std::byte> payload);
  void on_connected(std::uint64_t id, Link& link, Made made);
  void refuse(std::uint64_t id, Link& link, QueuePairRefusal refusal);
  // To `simmctl errors`, and once to the log.
  void tell(const std::string& trouble);
  // There is no queue pair: of an outgoing link, the next attempt comes by itself, not before that
  // time.
  void give_up(std::uint64_t id, const std::string& why, base::TimeNs at_least_ns = 0);
  void drop(std::uint64_t id, Link& link);
  void on_ended(std::unique_ptr<transport::RdmaLink> ended);
  void discard(std::unique_ptr<transport::RdmaLink> link);
  [[nodiscard]] transport::RdmaLinkMailbox* mailbox(const Link& link) const noexcept;

  ClusterAccess& access_;
  base::Log& log_;
  const QueuePairSetup setup_;
  // By the threads, oldest first. They wait here, not on the way to the control thread: so none
  // outlives its port when this object ends first.
  std::mutex results_mutex_;
  std::deque<Result> results_;
  JobThread threads_;                              // after what they fill
  std::vector<QueuePairPlaces> places_;            // by agent
  Links links_;                                    // after the places that they have
  std::vector<transport::RailState> rail_states_;  // as this object knows them
  std::map<std::uint64_t, Route> routes_;
  std::set<std::tuple<std::uint32_t, std::uint16_t, std::size_t>> reached_;  // those that there are
  struct Shared {
    std::size_t routes = 0;
    std::size_t rails = 0;  // of each of them, but for those that have no place
  };
  std::vector<Shared> shared_;  // by agent
  std::uint64_t next_route_ = 0;
  std::uint64_t next_link_;
  // Numbers of peers and rails of which an event says that they are lost, and none yet that they
  // are back.
  std::set<std::pair<std::uint32_t, std::size_t>> lost_rails_;
  bool has_undelivered_ = false;  // of links that are to end: a mailbox was full
  Deadline retry_;
  QueuePairCounters counters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace simm::control
