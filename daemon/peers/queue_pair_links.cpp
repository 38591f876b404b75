#include "daemon/peers/queue_pair_links.h"

#include <algorithm>
#include <utility>

#include "daemon/peers/cluster_settings.h"
#include "daemon/peers/link_keys.h"
#include "daemon/peers/link_loss_text.h"
#include "daemon/transport/rdma/device/rail_choice.h"

namespace simm::control {

using transport::RailState;

namespace {

// A mailbox is full only while its agent has no turns.
constexpr base::TimeNs kDeliverRetryNs = 5 * base::kNsPerMs;
// More than there are links: each has one job at a time.
constexpr std::size_t kJobsMax = 1 << 16;
// A server that is full takes a place from another daemon, which the next attempt finds.
constexpr std::uint32_t kFullAnswersTold = 4;
// A server that registers a large pool, or whose ports are out, is asked less and less often.
constexpr std::uint32_t kLateAnswersMax = 10;

// Whose turn a job of that rail takes: it has a thread of its own.
std::uint64_t turn_of(std::size_t rail) {
  return rail + 1;
}

}  // namespace

QueuePairLinks::QueuePairLinks(ClusterAccess& access, base::Log& log, QueuePairSetup setup)
    : access_(access),
      log_(log),
      setup_(std::move(setup)),
      threads_("simm-queuepairs", kJobsMax),
      places_(setup_.agents.size()),
      shared_(setup_.agents.size()),
      next_link_(cluster::first_link_of(access.self)),
      retry_(access.io),
      counters_(access.counters) {
  std::vector<std::uint64_t> turns;
  for (std::size_t rail = 0; rail < setup_.rails.size(); ++rail) turns.push_back(turn_of(rail));
  for (const transport::RdmaDevice* rail : setup_.rails) rail_states_.push_back(rail->state());
  if (is_used()) threads_.start(turns);
}

QueuePairLinks::~QueuePairLinks() {
  stop();
  links_.clear();
  threads_.stop();
}

void QueuePairLinks::stop() {
  alive_.reset();
  retry_.cancel();
  for (auto& [id, link] : links_) {
    link.dialer.reset();
    link.channel.reset();
    link.deadline.reset();
  }
}

// ---- peers ----

void QueuePairLinks::reach(base::PeerId peer, const cluster::MapMember& member, std::uint16_t shard,
                           std::size_t agent) {
  if (!is_used() || setup_.agents[agent].outgoing == nullptr) return;
  if (!reached_.emplace(peer.value, shard, agent).second) return;
  Route route{peer, shard, agent, {}, std::vector<std::uint64_t>(setup_.rails.size())};
  route.target.key = cluster::full_name(member.identity);
  route.target.address = dial_text(member.address, member.port);
  route.target.request = {cluster::HelloPurpose::queue_pair, member.identity.incarnation, shard, 0};
  const std::uint64_t number = next_route_++;
  Route& added = routes_.emplace(number, std::move(route)).first->second;
  const std::size_t place = shared_[agent].routes++;
  const RailShare now = share_of(agent);
  // Fewer rails for each, or more, is a matter of all, who may be thousands. That is rare.
  if (now.rails != shared_[agent].rails) return share(agent);
  give_rails(number, added, place < now.shards ? now.rails : 0);
}

void QueuePairLinks::share(std::size_t agent) {
  const RailShare share = share_of(agent);
  shared_[agent].rails = share.rails;
  std::size_t place = 0;
  for (auto& [number, route] : routes_) {
    if (route.agent == agent) give_rails(number, route, place++ < share.shards ? share.rails : 0);
  }
}

// Each route begins with another rail: together they use all of them.
void QueuePairLinks::give_rails(std::uint64_t number, Route& route, std::size_t left) {
  for (std::size_t i = 0; i < route.links.size(); ++i) {
    const std::size_t rail = (number + i) % route.links.size();
    std::uint64_t& link = route.links[rail];
    // A link whose port is down takes no place from one that works.
    const bool is_its = is_open(rail) ? left > 0 : may_use(rail, link);
    if (is_its && is_open(rail)) --left;
    if (is_its && link == 0) dial(route, rail);
    if (!is_its && link != 0) retire(links_.find(std::exchange(link, 0)));
  }
}

// What is connected may survive that its port's link is down for a moment.
bool QueuePairLinks::may_use(std::size_t rail, std::uint64_t link) const {
  if (is_open(rail)) return true;
  const bool is_connected = link != 0 && links_.at(link).state == State::open;
  return is_connected && rail_states_[rail] == RailState::down;
}

void QueuePairLinks::forget(std::uint64_t id) {
  for (auto& [number, route] : routes_) {
    for (std::uint64_t& link : route.links) {
      if (link == id) link = 0;
    }
  }
}

void QueuePairLinks::look_at_rails() {
  std::vector<RailState> now;
  for (const transport::RdmaDevice* rail : setup_.rails) now.push_back(rail->state());
  if (now == rail_states_) return;
  rail_states_ = now;
  for (std::size_t agent = 0; agent < setup_.agents.size(); ++agent) share(agent);
  std::vector<std::uint64_t> over;
  for (auto& [id, link] : links_) {
    // One that has chosen no rail yet has no address either.
    if (link.is_outgoing || !link.place.is_taken() || is_open(link.rail)) continue;
    const bool is_connected = link.state == State::open;
    if (is_connected && rail_states_[link.rail] == RailState::down) continue;
    if (!is_connected) over.push_back(id);
    if (is_connected) link.channel.reset();
    if (is_connected) drop(id, link);
  }
  for (const std::uint64_t id : over) give_up(id, "the port is not open any more");
}

std::size_t QueuePairLinks::place_of(std::size_t rail) const noexcept {
  const auto end = rail_states_.begin() + static_cast<std::ptrdiff_t>(rail);
  return static_cast<std::size_t>(std::count(rail_states_.begin(), end, RailState::open));
}

std::optional<std::size_t> QueuePairLinks::rail_to(const transport::QueuePairAddress& far,
                                                   std::size_t place) const {
  std::vector<std::size_t> rails;
  std::vector<transport::QueuePairAddress> addresses;
  for (std::size_t rail = 0; rail < setup_.rails.size(); ++rail) {
    if (!is_open(rail)) continue;
    rails.push_back(rail);
    addresses.push_back(setup_.rails[rail]->address());
  }
  const auto chosen = transport::choose_rail(addresses, far, place);
  if (!chosen) return std::nullopt;
  return rails[*chosen];
}

void QueuePairLinks::dial(Route& route, std::size_t rail) {
  const std::uint64_t id = route.links[rail] = next_link_++;
  Link& link = links_[id];
  link.is_outgoing = true;
  link.peer = route.peer;
  link.shard = route.shard;
  link.agent = route.agent;
  link.rail = rail;
  DialTarget target = route.target;
  target.request.link = id;
  ClusterDialerEvents& events = *this;
  link.dialer = std::make_unique<ClusterDialer>(access_, std::move(target), events);
  link.dialer->start();
}

QueuePairLinks::Links::iterator QueuePairLinks::retire(Links::iterator at) {
  Link& link = at->second;
  link.dialer.reset();
  if (link.state == State::open) drop(at->first, link);
  // The agent has it, also when its mailbox is too full to be told now.
  if (link.state == State::open || link.state == State::ending) return std::next(at);
  discard(std::move(link.made));
  return links_.erase(at);
}

void QueuePairLinks::leave(base::PeerId peer) {
  for (auto at = routes_.begin(); at != routes_.end();) {
    const bool is_its = at->second.peer == peer;
    if (is_its) --shared_[at->second.agent].routes;
    at = is_its ? routes_.erase(at) : std::next(at);
  }
  std::erase_if(reached_, [peer](const auto& one) { return std::get<0>(one) == peer.value; });
  for (auto at = links_.begin(); at != links_.end();) {
    const bool is_its = at->second.is_outgoing && at->second.peer == peer;
    at = is_its ? retire(at) : std::next(at);
  }
  std::erase_if(lost_rails_, [peer](const auto& lost) { return lost.first == peer.value; });
  for (std::size_t agent = 0; agent < setup_.agents.size(); ++agent) share(agent);
}

bool QueuePairLinks::has_links(base::PeerId peer) const {
  return std::any_of(links_.begin(), links_.end(), [peer](const auto& entry) {
    return entry.second.is_outgoing && entry.second.peer == peer;
  });
}

// ---- connecting ----

void QueuePairLinks::on_dialled(ClusterDialer& dialer, ipc::UniqueFd socket,
                                const cluster::HelloResult& result) {
  const std::uint64_t id = dialer.target().request.link;
  Link& link = links_.at(id);
  ClusterChannelEvents& events = *this;
  link.channel = std::make_unique<ClusterChannel>(access_, std::move(socket), result, events, id);
  link.keys = link_keys(result, access_.secret);
  link.features = result.features;
  link.state = State::offering;
  make(id, {}, &QueuePairLinks::on_made);
}

void QueuePairLinks::on_dial_failed(ClusterDialer& dialer, const Error& error) {
  links_.at(dialer.target().request.link).trouble = error.context;
}

void QueuePairLinks::run(std::uint64_t id, std::function<Made()> work, Then then) {
  Link& link = links_.at(id);
  link.attempt = std::make_shared<Attempt>();
  // What is made and not wanted any more ends on the thread as well.
  const auto job = [this, id, attempt = std::weak_ptr<Attempt>(link.attempt), then,
                    work = std::move(work), alive = std::weak_ptr<bool>(alive_), &io = access_.io] {
    // A peer that has hung up since would not come to hear of it.
    if (attempt.expired()) return;
    Result result{id, attempt, then, work()};
    {
      const std::lock_guard<std::mutex> lock(results_mutex_);
      results_.push_back(std::move(result));
    }
    boost::asio::post(io, [this, alive] {
      if (!alive.expired()) take_result();
    });
  };
  threads_.submit_release(job, turn_of(link.rail));
}

void QueuePairLinks::make(std::uint64_t id, std::optional<transport::QueuePairAddress> far,
                          Then then) {
  const Link& link = links_.at(id);
  const AgentQueuePairs& agent = setup_.agents[link.agent];
  transport::RdmaDevice& device = *setup_.rails[link.rail];
  transport::RdmaPort& port = *(link.is_outgoing ? agent.asking : agent.serving)[link.rail];
  const auto work = [&device, &port, far, rail = link.rail, asks = link.is_outgoing]() -> Made {
    if (Outcome read = device.refresh(); !read) return std::move(read).error();
    Made made = transport::make_rdma_link(device, port, asks);
    if (!made) return made;
    (*made)->rail = static_cast<std::uint16_t>(rail);
    if (!far) return made;
    Outcome connected = (*made)->queue_pair->connect(*far);
    if (!connected) return std::move(connected).error();
    return made;
  };
  run(id, work, then);
}

void QueuePairLinks::take_result() {
  std::unique_lock<std::mutex> lock(results_mutex_);
  Result result = std::move(results_.front());
  results_.pop_front();
  lock.unlock();
  const auto found = links_.find(result.link);
  const std::shared_ptr<Attempt> attempt = result.attempt.lock();
  if (found == links_.end() || attempt == nullptr || found->second.attempt != attempt) {
    if (result.made) discard(std::move(*result.made));
    return;
  }
  found->second.attempt.reset();
  (this->*result.then)(result.link, found->second, std::move(result.made));
}

void QueuePairLinks::on_made(std::uint64_t id, Link& link, Made made) {
  if (!made) return give_up(id, made.error().context);
  link.made = std::move(*made);
  QueuePairOffer said{link.made->queue_pair->address(), {}};
  // Rails that look alike may be networks of their own: another one is tried after a silence.
  if ((link.features & cluster::kFeatureRailPlaces) != 0) {
    const auto place = place_of(link.rail) + link.trials.places_passed();
    said.place = static_cast<std::uint8_t>(place % kRailPlaces);
  }
  if (link.channel == nullptr || link.channel->send(encode_offer(said)) != Status::ok) {
    return give_up(id, "the connection broke");
  }
  link.deadline = std::make_unique<Deadline>(access_.io);
  link.deadline->after(setup_.patience_ns, [this, id] { give_up(id, "the peer did not answer"); });
}

void QueuePairLinks::take(ipc::UniqueFd socket, const cluster::HelloResult& hello,
                          AskingDaemons::Link owned) {
  const std::uint16_t shard = hello.request.shard;
  const bool is_served =
      shard < setup_.agents.size() && is_used() && setup_.agents[shard].incoming != nullptr;
  if (!is_served) return counters_.refused.add();
  const std::uint64_t id = next_link_++;
  Link& link = links_[id];
  // Nobody looks for the requesters of a server by number, so each connection has one of its own.
  link.peer = base::PeerId{static_cast<std::uint32_t>(id)};
  link.shard = shard;
  link.agent = shard;
  link.requester = hello.peer;
  link.owned = std::move(owned);
  link.keys = link_keys(hello, access_.secret);
  link.state = State::offering;
  ClusterChannelEvents& events = *this;
  link.channel = std::make_unique<ClusterChannel>(access_, std::move(socket), hello, events, id);
  link.deadline = std::make_unique<Deadline>(access_.io);
  link.deadline->after(setup_.patience_ns, [this, id] { give_up(id, "there was no offer"); });
}

void QueuePairLinks::on_message(ClusterChannel& channel, std::span<const std::byte> payload) {
  const auto found = find(channel);
  if (found == links_.end()) return;
  Link& link = found->second;
  // Each end says one thing, once.
  if (link.state == State::open) {
    link.channel.reset();
    return drop(found->first, link);
  }
  if (link.state != State::offering || (link.is_outgoing && link.made == nullptr)) {
    return give_up(found->first, "the peer says what no daemon of this version says");
  }
  link.deadline.reset();
  link.state = State::connecting;
  if (link.is_outgoing) return take_answer(found->first, link, payload);
  take_offer(found->first, link, payload);
}

void QueuePairLinks::take_answer(std::uint64_t id, Link& link, std::span<const std::byte> payload) {
  const auto answer = decode_answer(payload);
  if (!answer) return give_up(id, "the peer's answer is not that of a daemon");
  if (answer->refusal != QueuePairRefusal::none) {
    const std::string why(refusal_text(answer->refusal));
    const bool is_full = answer->refusal == QueuePairRefusal::no_room;
    if (is_full) ++link.full_answers;
    // A person wants to know, but for what passes by itself, or leaves other queue pairs.
    const bool may_pass = link.full_answers < kFullAnswersTold || has_another(id, link);
    const bool is_usual = answer->refusal == QueuePairRefusal::not_ready || (is_full && may_pass);
    if (!is_usual) tell("no RDMA with " + link.dialer->target().key + ": " + why);
    const bool is_late = answer->refusal == QueuePairRefusal::not_ready;
    if (is_late) link.late_answers = std::min(link.late_answers + 1, kLateAnswersMax);
    const base::TimeNs late_ns = setup_.room_wait_ns * link.late_answers / kLateAnswersMax;
    return give_up(id, why, is_full ? setup_.room_wait_ns : is_late ? late_ns : 0);
  }
  const auto made = std::make_shared<std::unique_ptr<transport::RdmaLink>>(std::move(link.made));
  run(
      id,
      [made, far = answer->address]() -> Made {
        Outcome connected = (*made)->queue_pair->connect(far);
        if (!connected) return std::move(connected).error();
        return std::move(*made);
      },
      &QueuePairLinks::on_connected);
}

void QueuePairLinks::take_offer(std::uint64_t id, Link& link, std::span<const std::byte> payload) {
  const auto offer = decode_offer(payload);
  if (!offer) return give_up(id, "an offer that is not that of a daemon");
  const transport::QueuePairAddress& far = offer->address;
  const std::size_t place = offer->place ? *offer->place : static_cast<std::size_t>(id);
  const auto rail = rail_to(far, place);
  if (!rail) {
    // Those that are not open now may be the ones.
    const bool are_open = std::all_of(rail_states_.begin(), rail_states_.end(),
                                      [](RailState state) { return state == RailState::open; });
    return refuse(id, link, are_open ? QueuePairRefusal::no_rail : QueuePairRefusal::not_ready);
  }
  if (!admits(link)) return refuse(id, link, QueuePairRefusal::no_room);
  link.rail = *rail;
  const transport::KeysFound keys = setup_.pool_keys(*rail);
  if (keys == transport::KeysFound::failed) {
    tell(setup_.rails[*rail]->info().name() +
         ": other daemons are refused, because the pool could not be registered with it");
    return refuse(id, link, QueuePairRefusal::not_registered);
  }
  if (keys != transport::KeysFound::all) return refuse(id, link, QueuePairRefusal::not_ready);
  make(id, far, &QueuePairLinks::on_connected);
}

bool QueuePairLinks::has_another(std::uint64_t id, const Link& link) const {
  return std::any_of(links_.begin(), links_.end(), [&](const auto& entry) {
    const Link& other = entry.second;
    return entry.first != id && other.is_outgoing && other.state == State::open &&
           other.peer == link.peer && other.shard == link.shard && other.agent == link.agent;
  });
}

bool QueuePairLinks::admits(Link& link) {
  const std::string name = cluster::full_name(link.requester);
  QueuePairPlaces& places = places_[link.agent];
  std::string greediest;
  const Admission admission =
      admit(places.found_by(name, setup_.agents[link.agent].room, greediest));
  if (admission == Admission::make_room) take_place(greediest, link.agent, name);
  if (admission == Admission::take) link.place.take(places, name);
  return link.place.is_taken();
}

void QueuePairLinks::take_place(const std::string& from, std::size_t agent, const std::string& to) {
  std::vector<std::uint64_t> open;
  for (const auto& [id, link] : links_) {
    if (link.is_outgoing || link.state != State::open || link.agent != agent) continue;
    if (link.place.is_kept_by(from)) open.push_back(id);
  }
  if (open.empty()) return;
  // Any: the agents of one requester can not be told apart, and no one of them shall lose all.
  const std::uint64_t id = open[access_.random.below(open.size())];
  Link& link = links_.at(id);
  counters_.made_room.add();
  link.place.pass_to(to);
  link.channel.reset();
  drop(id, link);
}

// The requester hangs up, or is hung up on.
void QueuePairLinks::refuse(std::uint64_t id, Link& link, QueuePairRefusal refusal) {
  counters_.refused.add();
  link.place.give_back();
  link.deadline = std::make_unique<Deadline>(access_.io);
  link.deadline->after(setup_.patience_ns, [this, id] { give_up(id, "it was refused"); });
  static_cast<void>(link.channel->send(encode_answer({refusal, {}})));
}

void QueuePairLinks::tell(const std::string& trouble) {
  const bool is_new = access_.errors.record("cluster.queue_pair", Status::unreachable, trouble);
  if (is_new) log_.warning("rdma", trouble);
}

void QueuePairLinks::on_connected(std::uint64_t id, Link& link, Made made) {
  if (!made) {
    access_.errors.record("cluster.queue_pair", made.error().status, made.error().context);
    if (link.is_outgoing) return give_up(id, made.error().context);
    const bool is_full = made.error().status == Status::out_of_memory;
    return refuse(id, link, is_full ? QueuePairRefusal::no_room : QueuePairRefusal::failed);
  }
  std::unique_ptr<transport::RdmaLink> finished = std::move(*made);
  finished->peer = link.peer;
  finished->shard = link.shard;
  finished->link = id;
  finished->owner = link.owned.owner;
  finished->keys = link.keys;
  finished->takes_long_pings = (link.features & cluster::kFeatureLongPings) != 0;
  finished->takes_traces = (link.features & cluster::kFeatureTraces) != 0;
  const auto answer = encode_answer({QueuePairRefusal::none, finished->queue_pair->address()});
  if (link.channel == nullptr || !mailbox(link)->control_add(finished)) {
    discard(std::move(finished));
    return give_up(id, "the data agent takes no more connections now");
  }
  link.state = State::open;
  link.full_answers = link.late_answers = 0;
  link.trouble.clear();
  const bool is_kept = link.is_outgoing && link.dialer != nullptr;
  if (is_kept && lost_rails_.erase({link.peer.value, link.rail}) > 0) {
    access_.events.tell(base::EventKind::rail_back,
                        {{"peer", link.dialer->target().key}, {"rail", link.rail}});
  }
  if (!link.is_outgoing && link.channel->send(answer) != Status::ok) drop(id, link);
}

// ---- ends ----

transport::RdmaLinkMailbox* QueuePairLinks::mailbox(const Link& link) const noexcept {
  const AgentQueuePairs& agent = setup_.agents[link.agent];
  return link.is_outgoing ? agent.outgoing : agent.incoming;
}

void QueuePairLinks::on_closed(ClusterChannel& channel, const Error& cause) {
  const auto found = find(channel);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (link.state != State::open) return give_up(found->first, cause.context);
  link.channel.reset();
  drop(found->first, link);
}

// The agent ends it, and says so.
void QueuePairLinks::drop(std::uint64_t id, Link& link) {
  if (mailbox(link)->control_drop_link(id)) {
    link.state = State::ending;
    return;
  }
  has_undelivered_ = true;
  retry_.after(kDeliverRetryNs, [this] { deliver(); });
}

void QueuePairLinks::give_up(std::uint64_t id, const std::string& why, base::TimeNs at_least_ns) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (link.state == State::open || link.state == State::ending) return;
  discard(std::move(link.made));
  if (!link.is_outgoing || link.dialer == nullptr) {
    links_.erase(found);
    return;
  }
  if (!is_open(link.rail)) {
    // Its agent gets another one when it is, and over another rail until then.
    const std::size_t agent = link.agent;
    forget(id);
    links_.erase(found);
    return share(agent);
  }
  link.attempt.reset();
  link.channel.reset();
  link.deadline.reset();
  link.state = State::dialling;
  link.trouble = why;
  link.dialer->redial(at_least_ns);
}

void QueuePairLinks::deliver() {
  if (alive_ == nullptr) return;
  look_at_rails();
  for (const AgentQueuePairs& agent : setup_.agents) {
    for (transport::RdmaLinkMailbox* box : {agent.outgoing, agent.incoming}) {
      if (box == nullptr) continue;
      while (auto ended = box->control_take_ended()) on_ended(std::move(ended));
    }
  }
  // What found a mailbox full.
  if (!std::exchange(has_undelivered_, false)) return;
  for (auto& [id, link] : links_) {
    const bool is_over = link.channel == nullptr || (link.is_outgoing && link.dialer == nullptr);
    if (link.state == State::open && is_over) drop(id, link);
  }
}

void QueuePairLinks::on_ended(std::unique_ptr<transport::RdmaLink> ended) {
  const transport::LinkLost lost = ended->lost();
  counters_.lost[static_cast<std::size_t>(lost.cause)].add();
  const auto found = links_.find(lost.link);
  if (found == links_.end()) return discard(std::move(ended));
  Link& link = found->second;
  link.trials.on_ended(lost.cause, ended->was_heard);
  discard(std::move(ended));
  link.state = State::dialling;
  const bool is_wanted = link.is_outgoing && link.dialer != nullptr;
  if (is_wanted && lost_rails_.emplace(link.peer.value, link.rail).second) {
    access_.events.tell(base::EventKind::rail_lost, {{"peer", link.dialer->target().key},
                                                     {"rail", link.rail},
                                                     {"why", link_loss_text(lost.cause)}});
  }
  const base::TimeNs pause_ns = link.trials.pause_ns(setup_.rails.size(), setup_.unheard_wait_ns);
  const std::string cause(link_loss_text(lost.cause));
  if (!is_wanted || pause_ns == 0) return give_up(lost.link, cause);
  const std::string why = "nothing comes back from there over " +
                          setup_.rails[link.rail]->info().name() +
                          "; do both ports belong to one fabric, and does it carry RoCE?";
  tell("no RDMA with " + link.dialer->target().key + ": " + why);
  give_up(lost.link, why, pause_ns);
}

// Where deregistering takes its time.
void QueuePairLinks::discard(std::unique_ptr<transport::RdmaLink> link) {
  if (link == nullptr) return;
  const std::uint64_t turn = turn_of(link->rail);
  threads_.submit_release([gone = std::shared_ptr<transport::RdmaLink>(std::move(link))] {}, turn);
}

// ---- what is known ----

std::map<std::uint32_t, QueuePairLinks::View> QueuePairLinks::views() const {
  std::map<std::uint32_t, View> views;
  for (const auto& [id, link] : links_) {
    if (!link.is_outgoing) continue;
    View& view = views[link.peer.value];
    ++view.connections;
    view.open += link.state == State::open ? 1U : 0U;
    if (link.state != State::open && !link.trouble.empty()) view.trouble = link.trouble;
  }
  return views;
}

std::map<std::string, std::size_t> QueuePairLinks::requesters() const {
  std::map<std::string, std::size_t> requesters;
  for (const auto& [id, link] : links_) {
    if (!link.is_outgoing && link.state == State::open)
      ++requesters[cluster::full_name(link.requester)];
  }
  return requesters;
}

}  // namespace simm::control
