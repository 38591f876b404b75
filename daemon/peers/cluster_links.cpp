#include "daemon/peers/cluster_links.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "daemon/base/json_text.h"
#include "daemon/peers/cluster_settings.h"
#include "daemon/peers/link_keys.h"
#include "daemon/peers/link_loss_text.h"
#include "daemon/peers/link_share.h"
#include "daemon/peers/rail_share.h"

namespace simm::control {
namespace {

// A mailbox is full only while its agent has no turns.
constexpr base::TimeNs kRetryNs = 5 * base::kNsPerMs;

std::size_t index_of(transport::LinkLoss cause) noexcept {
  return static_cast<std::size_t>(cause);
}

}  // namespace

ClusterLinks::ClusterLinks(ClusterAccess& access, std::vector<AgentLinks> agents,
                           std::uint32_t connections_per_shard, QueuePairLinks& queue_pairs)
    : access_(access),
      queue_pairs_(queue_pairs),
      agents_(std::move(agents)),
      connections_per_shard_(connections_per_shard),
      peers_(access.self.incarnation),
      asking_daemons_(access.errors),
      next_link_(cluster::first_link_of(access.self)),
      guests_(agents_.size()),
      retry_(access.io),
      counters_(access.counters) {}

// ---- members ----

void ClusterLinks::use(const cluster::SlotMap& map, const MovesTo& moves_to) {
  const cluster::PeerTable::Change change = peers_.use(map);
  for (const base::PeerId peer : change.removed) leave(peer, map.epoch());
  for (const base::PeerId peer : change.added) {
    Peer& asked = asked_[peer.value];
    asked.shards = peers_.who(peer)->shards;
    asked.open_routes.assign(agents_.size() * asked.shards, 0);
    asked.places.assign(agents_.size(),
                        std::vector<std::uint64_t>(asked.shards * connections_per_shard_));
  }
  for (auto& [number, asked] : asked_) {
    const cluster::MapMember& member = *peers_.who(base::PeerId{number});
    asked.is_moved_to = moves_to && moves_to(member.identity.incarnation);
  }
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
    if (asks(agent)) share(agent);
  }
  flush();
  release_peers();
}

void ClusterLinks::end_moves() {
  for (auto& [number, asked] : asked_) asked.is_moved_to = false;
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
    if (asks(agent) && agents_[agent].only_moves) share(agent);
  }
}

// The places of an agent that asks. All shards of a peer have a connection before one has a second.
void ClusterLinks::share(std::size_t agent) {
  std::vector<std::size_t> wanted;
  for (const auto& [number, asked] : asked_) {
    if (is_wanted(agent, asked)) wanted.push_back(asked.places[agent].size());
  }
  const std::size_t most = share_links(std::move(wanted), agents_[agent].outgoing->control_room());
  for (auto& [number, asked] : asked_) {
    std::vector<std::uint64_t>& places = asked.places[agent];
    const std::size_t places_max = is_wanted(agent, asked) ? most : 0;
    for (std::size_t place = 0; place < places.size(); ++place) {
      if (place >= places_max && places[place] != 0) retire(std::exchange(places[place], 0));
      if (place < places_max && places[place] == 0) dial(base::PeerId{number}, agent, place);
    }
  }
}

// A number has one address for life, and serves the same shards.
void ClusterLinks::dial(base::PeerId peer, std::size_t agent, std::size_t place) {
  const cluster::MapMember& member = *peers_.who(peer);
  Peer& asked = asked_.at(peer.value);
  const bool is_first = links_.count(asked.looking) == 0;
  const std::uint64_t id = asked.places[agent][place] = next_link_++;
  if (is_first) asked.looking = id;
  Link& link = links_[id];
  link.peer = peer;
  link.shard = static_cast<std::uint16_t>(place % asked.shards);
  link.agent = agent;
  link.place = place;
  ClusterDialerEvents& events = *this;
  link.dialer = std::make_unique<ClusterDialer>(
      access_,
      DialTarget{cluster::full_name(member.identity),
                 dial_text(member.address, member.port),
                 {cluster::HelloPurpose::data, member.identity.incarnation, link.shard, id},
                 is_first ? cluster::Backoff::kLookNs : cluster::Backoff::kLongestNs},
      events);
  link.dialer->start();
}

// Its place is another peer's. What is out on it is done again over one that stays, as when a
// connection breaks.
void ClusterLinks::retire(std::uint64_t id) {
  Link& link = links_.at(id);
  link.dialer.reset();
  if (link.state != State::open) {
    links_.erase(id);
    return;
  }
  link.is_given_back = !agents_[link.agent].outgoing->control_drop_link(id);
  if (!link.is_given_back) return;
  has_undelivered_ = true;
  retry_.after(kRetryNs, [this] { flush(); });
}

void ClusterLinks::leave(base::PeerId peer, base::Epoch epoch) {
  queue_pairs_.leave(peer);
  asked_.erase(peer.value);
  for (auto at = links_.begin(); at != links_.end();) {
    Link& link = at->second;
    if (link.peer == peer && link.state != State::open) {
      at = links_.erase(at);
      continue;
    }
    // The agent's: it says when it has ended.
    if (link.peer == peer) link.dialer.reset();
    ++at;
  }
  Leaving& leaving = leaving_[peer.value];
  leaving.epoch = epoch;
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
    if (agents_[agent].outgoing != nullptr) leaving.not_told.push_back(agent);
  }
}

void ClusterLinks::on_agents_use(base::Epoch epoch) {
  agents_epoch_ = std::max(agents_epoch_, epoch);
  release_peers();
}

bool ClusterLinks::has_links(base::PeerId peer) const {
  return queue_pairs_.has_links(peer) ||
         std::any_of(links_.begin(), links_.end(),
                     [peer](const auto& entry) { return entry.second.peer == peer; });
}

void ClusterLinks::release_peers() {
  for (auto at = leaving_.begin(); at != leaving_.end();) {
    const Leaving& leaving = at->second;
    if (!leaving.not_told.empty() || leaving.epoch > agents_epoch_ ||
        has_links(base::PeerId{at->first})) {
      ++at;
      continue;
    }
    peers_.release(base::PeerId{at->first});
    at = leaving_.erase(at);
  }
}

// ---- connections ----

void ClusterLinks::on_dialled(ClusterDialer& dialer, ipc::UniqueFd socket,
                              const cluster::HelloResult& result) {
  const std::uint64_t id = dialer.target().request.link;
  Link& link = links_.at(id);
  link.takes_moved = (result.features & cluster::kFeatureMovedPuts) != 0;
  link.takes_tells = (result.features & cluster::kFeatureMovedTells) != 0;
  link.takes_traces = (result.features & cluster::kFeatureTraces) != 0;
  const bool has_ports = (result.features & cluster::kFeatureQueuePairs) != 0;
  if (has_ports && !agents_[link.agent].only_moves) {
    queue_pairs_.reach(link.peer, *peers_.who(link.peer), link.shard, link.agent);
  }
  link.socket = std::move(socket);
  link.version = result.version;
  link.keys = link_keys(result, access_.secret);
  link.trouble.clear();
  link.is_refused = false;
  if (asked_.at(link.peer.value).open == 0) hurry(link.peer);
  hand_over(id, link);
}

// A peer that was away for long finds all dialers at their longest waits.
void ClusterLinks::hurry(base::PeerId peer) {
  bool was_away = false;
  for (const std::vector<std::uint64_t>& places : asked_.at(peer.value).places) {
    for (const std::uint64_t id : places) {
      if (id != 0 && links_.at(id).dialer->hurry()) was_away = true;
    }
  }
  if (was_away) counters_.returned.add();
}

void ClusterLinks::on_dial_failed(ClusterDialer& dialer, const Error& error) {
  Link& link = links_.at(dialer.target().request.link);
  link.trouble = error.context;
  link.is_refused = error.status == Status::out_of_memory;
  if (link.is_refused) counters_.refused_by_peer.add();
}

void ClusterLinks::hand_over(std::uint64_t id, Link& link) {
  transport::TcpLink finished{
      std::move(link.socket), link.peer,         link.shard,      id, {}, link.keys,
      link.takes_moved,       link.takes_traces, link.takes_tells};
  if (agents_[link.agent].outgoing->control_add(finished)) {
    link.state = State::open;
    note_open(link, 1);
    return tell_back(link.peer);
  }
  link.socket = std::move(finished.socket);
  link.state = State::waiting;
  has_undelivered_ = true;
  retry_.after(kRetryNs, [this] { flush(); });
}

// An open one is at its end.
void ClusterLinks::close(Link& link, State next) {
  if (link.state == State::open) note_open(link, -1);
  link.state = next;
}

void ClusterLinks::note_open(const Link& link, int change) {
  open_ += static_cast<std::size_t>(change);
  const auto found = asked_.find(link.peer.value);
  if (found == asked_.end()) return;  // it has left
  Peer& asked = found->second;
  std::uint32_t& route = asked.open_routes[link.agent * asked.shards + link.shard];
  asked.open += static_cast<std::size_t>(change);
  if (route == 0) ++asked.reached;
  route += static_cast<std::uint32_t>(change);
  if (route == 0) --asked.reached;
}

// What found a mailbox full.
void ClusterLinks::flush() {
  bool is_done = true;
  for (auto& [number, leaving] : leaving_) {
    auto& agents = leaving.not_told;
    const auto told = [this, left = base::PeerId{number}](std::size_t agent) {
      return agents_[agent].outgoing->control_drop_peer(left);
    };
    agents.erase(std::remove_if(agents.begin(), agents.end(), told), agents.end());
    is_done = is_done && agents.empty();
  }
  // Every bell comes by here, and there may be thousands of links.
  if (std::exchange(has_undelivered_, false)) {
    for (auto& [id, link] : links_) {
      if (link.state == State::waiting) hand_over(id, link);
      if (!link.is_given_back) continue;
      link.is_given_back = !agents_[link.agent].outgoing->control_drop_link(id);
      is_done = is_done && !link.is_given_back;
      has_undelivered_ = has_undelivered_ || link.is_given_back;
    }
  }
  if (!is_done) retry_.after(kRetryNs, [this] { flush(); });
  release_peers();
}

void ClusterLinks::take(ipc::UniqueFd socket, const cluster::HelloResult& hello) {
  const std::uint16_t shard = hello.request.shard;
  if (shard >= agents_.size() || agents_[shard].incoming == nullptr) return counters_.refused.add();
  // Several hellos may have been let in at one time.
  if (guests_[shard].taken >= agents_[shard].incoming->control_room())
    return counters_.refused.add();
  std::optional<AskingDaemons::Link> owned = asking_daemons_.greet(hello);
  if (!owned) return counters_.refused.add();
  const std::uint64_t id = next_link_++;
  // Nobody looks for the requesters of a server by number, so each connection has one of its own.
  transport::TcpLink link{std::move(socket),
                          base::PeerId{static_cast<std::uint32_t>(id)},
                          shard,
                          id,
                          owned->owner,
                          link_keys(hello, access_.secret),
                          false};
  // Not taken: closed, and dialled again after a while.
  if (!agents_[shard].incoming->control_add(link)) return counters_.refused.add();
  const std::string name = cluster::full_name(hello.peer);
  ++guests_[shard].taken;
  ++guests_[shard].held[name];
  incoming_.emplace(id, Incoming{hello.peer, shard, std::move(*owned), name});
}

bool ClusterLinks::has_room_for(const cluster::DaemonIdentity& requester, std::uint16_t shard) {
  if (shard >= agents_.size() || agents_[shard].incoming == nullptr) return true;  // take() says so
  const Guests& guests = guests_[shard];
  const std::string name = cluster::full_name(requester);
  const auto found = guests.held.find(name);
  Places places;
  places.room = agents_[shard].incoming->control_room();
  places.taken = guests.taken;
  places.own = found == guests.held.end() ? 0 : found->second;
  // One more may come any time: nobody has all of them.
  places.requesters =
      std::max<std::size_t>(2, guests.held.size() + (found == guests.held.end() ? 1 : 0));
  const auto greediest =
      std::max_element(guests.held.begin(), guests.held.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (greediest != guests.held.end()) places.most = greediest->second;
  const Admission admission = admit(places);
  if (admission == Admission::take) return true;
  counters_.refused.add();
  if (admission == Admission::make_room) make_room(shard, greediest->first, name);
  return false;
}

// The place counts as had from here on: several attempts make one each, and no more.
void ClusterLinks::make_room(std::uint16_t shard, const std::string& from, const std::string& to) {
  std::vector<std::uint64_t> theirs;
  for (const auto& [id, one] : incoming_) {
    if (one.shard == shard && !one.is_ending && one.counted_for == from) theirs.push_back(id);
  }
  if (theirs.empty()) return;
  // Any: the agents of one daemon can not be told apart, and no one of them shall lose all.
  const std::uint64_t id = theirs[access_.random.below(theirs.size())];
  if (!agents_[shard].incoming->control_drop_link(id)) return;
  Incoming& one = incoming_.at(id);
  one.is_ending = true;
  counters_.made_room.add();
  std::map<std::string, std::size_t>& held = guests_[shard].held;
  if (--held[from] == 0) held.erase(from);
  ++held[to];
  one.counted_for = to;
}

void ClusterLinks::on_guest_lost(std::uint64_t id) {
  const auto found = incoming_.find(id);
  if (found == incoming_.end()) return;
  Guests& guests = guests_[found->second.shard];
  --guests.taken;
  const auto held = guests.held.find(found->second.counted_for);
  if (--held->second == 0) guests.held.erase(held);
  incoming_.erase(found);
}

void ClusterLinks::take_queue_pair(ipc::UniqueFd socket, const cluster::HelloResult& hello) {
  std::optional<AskingDaemons::Link> owned = asking_daemons_.greet(hello);
  if (!owned) return counters_.refused.add();
  queue_pairs_.take(std::move(socket), hello, std::move(*owned));
}

void ClusterLinks::deliver() {
  queue_pairs_.deliver();
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
    transport::LinkLost lost;
    transport::TcpLinkMailbox* const outgoing = agents_[agent].outgoing;
    while (outgoing != nullptr && outgoing->control_take_lost(lost)) on_lost(agent, lost);
    transport::TcpLinkMailbox* const incoming = agents_[agent].incoming;
    while (incoming != nullptr && incoming->control_take_lost(lost)) {
      counters_.lost[index_of(lost.cause)].add();
      on_guest_lost(lost.link);
    }
  }
  flush();
}

void ClusterLinks::on_lost(std::size_t agent, const transport::LinkLost& lost) {
  counters_.lost[index_of(lost.cause)].add();
  const auto found = links_.find(lost.link);
  if (found == links_.end() || found->second.agent != agent) return;
  Link& link = found->second;
  close(link, State::dialling);
  if (link.dialer == nullptr) {
    links_.erase(found);
    return;
  }
  link.trouble = link_loss_text(lost.cause);
  link.dialer->redial();
  tell_lost(link, lost.cause);
}

// A peer that dies is one event, not one for each of its connections.
void ClusterLinks::tell_lost(const Link& link, transport::LinkLoss cause) {
  const auto found = asked_.find(link.peer.value);
  if (found == asked_.end()) return;
  Peer& asked = found->second;
  const Told told = asked.open > 0 ? Told::link_lost : Told::peer_lost;
  if (asked.told >= told) return;
  asked.told = told;
  const bool is_away = told == Told::peer_lost;
  access_.events.tell(is_away ? base::EventKind::peer_lost : base::EventKind::link_lost,
                      {{"peer", cluster::full_name(peers_.who(link.peer)->identity)},
                       {"why", link_loss_text(cause)}});
}

void ClusterLinks::tell_back(base::PeerId peer) {
  const auto found = asked_.find(peer.value);
  if (found == asked_.end() || found->second.told == Told::nothing) return;
  Peer& asked = found->second;
  std::size_t all = 0;
  for (const std::vector<std::uint64_t>& places : asked.places) {
    all += places.size() -
           static_cast<std::size_t>(std::count(places.begin(), places.end(), std::uint64_t{0}));
  }
  if (asked.open < all) return;
  asked.told = Told::nothing;
  access_.events.tell(
      base::EventKind::peer_back,
      {{"peer", cluster::full_name(peers_.who(peer)->identity)}, {"connections", all}});
}

void ClusterLinks::stop() {
  retry_.cancel();
  for (auto& [id, link] : links_) link.dialer.reset();
}

// ---- what is known ----

std::optional<cluster::MemberSet> ClusterLinks::reached(const cluster::SlotMap& map) const {
  const bool asks = std::any_of(agents_.begin(), agents_.end(), [](const AgentLinks& agent) {
    return agent.outgoing != nullptr && !agent.only_moves;
  });
  if (!asks) return std::nullopt;
  cluster::MemberSet reached;
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    const base::PeerId peer = peers_.find(map.members()[i].identity.incarnation);
    reached.set(i, peer == base::kSelf || is_reached(peer));
  }
  return reached;
}

// A shard without a connection is not reached, and its slots are misses.
bool ClusterLinks::is_reached(base::PeerId peer) const {
  const auto found = asked_.find(peer.value);
  if (found == asked_.end()) return false;
  std::size_t asking = 0;
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) asking += asks(agent) ? 1U : 0U;
  return found->second.reached == asking * found->second.shards;
}

bool ClusterLinks::is_reaching_out() const noexcept {
  return std::any_of(links_.begin(), links_.end(), [this](const auto& entry) {
    const Link& link = entry.second;
    const bool is_first_try = link.state == State::dialling && link.trouble.empty();
    return is_first_try && !agents_[link.agent].only_moves;
  });
}

std::vector<ClusterLinks::PeerView> ClusterLinks::peer_views() const {
  std::map<std::uint32_t, PeerView> views;
  for (const auto& [id, link] : links_) {
    PeerView& view = views[link.peer.value];
    ++view.connections;
    if (link.state == State::open) {
      ++view.open;
      view.version = view.version == 0 ? link.version : std::min(view.version, link.version);
    }
    if (link.state == State::dialling && !link.trouble.empty()) view.trouble = link.trouble;
    view.refused += link.is_refused ? 1U : 0U;
  }
  std::vector<PeerView> all;
  for (auto& [number, view] : views) {
    view.number = number;
    if (const cluster::MapMember* member = peers_.who(base::PeerId{number})) {
      view.name = cluster::full_name(member->identity);
      view.address = dial_text(member->address, member->port);
      view.shards = member->shards;
    }
    all.push_back(std::move(view));
  }
  return all;
}

std::string ClusterLinks::report() const {
  using Json = nlohmann::ordered_json;
  Json peers = Json::array();
  auto queue_pairs = queue_pairs_.views();
  for (const PeerView& view : peer_views()) {
    const QueuePairLinks::View& rdma = queue_pairs[view.number];
    Json one;
    one["peer"] = view.number;
    one["name"] = view.name.empty() ? "(has left the map)" : view.name;
    one["address"] = view.address;
    one["shards"] = view.shards;
    one["connections"] = view.connections;
    one["open"] = view.open;
    one["protocol"] = view.version;
    one["trouble"] = view.trouble;
    one["refused"] = view.refused;
    one["transport"] = rdma.open > 0 ? "rdma" : "tcp";
    one["queue_pairs"] = rdma.connections;
    one["queue_pairs_open"] = rdma.open;
    one["queue_pairs_trouble"] = rdma.trouble;
    peers.push_back(std::move(one));
  }
  std::map<std::string, std::size_t> requesters;
  for (const auto& [id, from] : incoming_) ++requesters[cluster::full_name(from.requester)];
  Json asking = Json::array();
  auto asking_by_rdma = queue_pairs_.requesters();
  for (const auto& [name, connections] : requesters) {
    asking.push_back(
        {{"name", name}, {"connections", connections}, {"queue_pairs", asking_by_rdma[name]}});
  }
  return base::json_text(Json{{"peers", peers}, {"askers", asking}});
}

}  // namespace simm::control
