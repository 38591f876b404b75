#include "daemon/peers/cluster_presence.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/json_text.h"
#include "daemon/cluster/map_ownership.h"
#include "daemon/cluster/map_placement.h"
#include "daemon/control/stats_text.h"

namespace simm::control {
namespace {

// The manager gives a daemon two seconds.
constexpr base::TimeNs kAnswerTimeNs = 3 * base::kNsPerSecond;
constexpr std::size_t kQuestionsMax = 64;
constexpr base::TimeNs kDrainLookNs = 10 * base::kNsPerMs;
constexpr base::TimeNs kMovesLookNs = 50 * base::kNsPerMs;
constexpr base::TimeNs kDialTimeNs = 200 * base::kNsPerMs;
constexpr base::TimeNs kDialLookNs = 2 * base::kNsPerMs;

std::vector<AgentLinks> links_of(const std::vector<AgentPresence>& agents) {
  std::vector<AgentLinks> links;
  for (const AgentPresence& agent : agents) links.push_back(agent.links);
  return links;
}

std::vector<AgentQueuePairs> queue_pairs_of(const std::vector<AgentPresence>& agents) {
  std::vector<AgentQueuePairs> queue_pairs;
  for (const AgentPresence& agent : agents) queue_pairs.push_back(agent.queue_pairs);
  return queue_pairs;
}

}  // namespace

Expected<std::unique_ptr<ClusterPresence>> ClusterPresence::create(Setup setup) {
  std::unique_ptr<ClusterPresence> made(new ClusterPresence(std::move(setup)));
  const Outcome joined = made->join();
  if (!joined) return joined.error();
  return made;
}

ClusterPresence::ClusterPresence(Setup setup)
    : setup_(std::move(setup)),
      access_{setup_.environment.io,       setup_.environment.clock,  setup_.random,
              setup_.environment.counters, setup_.environment.limits, setup_.environment.errors,
              setup_.settings.secret,      setup_.settings.self,      setup_.environment.events},
      queue_pairs_(access_, setup_.environment.log,
                   {setup_.rails, queue_pairs_of(setup_.agents), setup_.pool_keys}),
      links_(access_, links_of(setup_.agents),
             setup_.environment.config.cluster.connections_per_shard, queue_pairs_),
      listener_(access_, *this),
      survey_(access_),
      spread_timer_(access_.io),
      departures_(access_.self.incarnation),
      refills_(access_.self.incarnation, setup_.last_map),
      moves_timer_(access_.io),
      refills_timer_(access_.io),
      load_sum_(access_.counters),
      handover_(access_, handover_hooks(), std::min(setup_.pool_bytes, cluster::kWeightBytesMax),
                setup_.environment.config.cluster.move_bytes_per_s),
      drain_timer_(access_.io) {}

Outcome ClusterPresence::join() {
  const base::Config& config = setup_.environment.config;
  cluster::MemberConfig member;
  member.identity = {access_.self.incarnation, access_.self.role, access_.self.name};
  if (setup_.pool_bytes > 0) {
    Outcome listening = listener_.listen("cluster.listen", config.cluster.listen);
    if (!listening) return listening;
    auto address = advertised_address(config, listener_.address());
    if (!address) return std::move(address).error();
    member.address = std::move(address->host);
    member.port = address->port;
    member.shards = static_cast<std::uint16_t>(setup_.agents.size());
    member.weight_bytes = std::min(setup_.pool_bytes, cluster::kWeightBytesMax);
    member.grace_ms = setup_.grace_ms;
    setup_.environment.log.info("cluster", "listening for other daemons",
                                {{"address", listener_.address().text()},
                                 {"advertised", dial_text(member.address, member.port)}});
  }
  if (!setup_.settings.secret.is_secret()) {
    setup_.environment.log.warning(
        "cluster",
        "there is no secret (cluster.secret_file), so this daemon talks over loopback "
        "only, and anybody on this host may join the cluster");
  }
  cluster::MemberEvents& events = *this;
  manager_ = std::make_unique<ManagerLink>(access_, config.cluster.manager, member, events,
                                           setup_.on_status);
  return Done{};
}

void ClusterPresence::start() {
  manager_->start();
}

void ClusterPresence::stop() {
  manager_->stop();
  survey_.stop();
  listener_.stop();
  links_.stop();
  queue_pairs_.stop();
  drain_timer_.cancel();
  spread_timer_.cancel();
  moves_timer_.cancel();
  refills_timer_.cancel();
  handover_.stop();
  when_drained_ = nullptr;
  while (!asked_.empty()) {
    end_question(asked_.begin()->first, Error{Status::unreachable, "this daemon is stopping"});
  }
}

// ---- maps ----

void ClusterPresence::on_map(const cluster::SlotMapPtr& map, const cluster::SlotMapPtr& before) {
  if (setup_.on_map && !setup_.on_map(*map)) return;
  if (before != nullptr) {
    tell_members(base::EventKind::member_gone, *before, *map);
    tell_members(base::EventKind::member_joined, *map, *before);
  }
  const bool may_move =
      setup_.pool_bytes > 0 && setup_.environment.config.cluster.move_bytes_per_s > 0;
  const bool moves = may_move && departures_.use(*map, before.get());
  const bool refills = may_move && setup_.is_replicated && refills_.use(*map, before.get());
  if (handover_.course().is_late()) departures_.clear();
  links_.use(*map, [this, &map](const cluster::Incarnation& member) {
    return departures_.has_target(*map, member) || refills_.has_target(*map, member);
  });
  if (moves && departures_.slots() > 0) begin_moves();
  if (refills && refills_.slots() > 0) look_at_refills();
  held_ = map;
  held_until_ns_ = access_.clock.now_ns() + kDialTimeNs;
  spread_map();
}

// Of those that `here` names and `not_here` does not.
void ClusterPresence::tell_members(base::EventKind kind, const cluster::SlotMap& here,
                                   const cluster::SlotMap& not_here) {
  for (const cluster::MapMember& member : here.members()) {
    if (not_here.find(member.identity.incarnation)) continue;
    access_.events.tell(kind, {{"daemon", cluster::full_name(member.identity)},
                               {"incarnation", member.identity.incarnation.text()}});
  }
}

// To the data agents. What a new member gets is in nobody's reach before it is dialled, which takes
// milliseconds; a member that does not answer holds nobody up for long.
void ClusterPresence::spread_map() {
  if (links_.is_reaching_out() && access_.clock.now_ns() < held_until_ns_) {
    return spread_timer_.after(kDialLookNs, [this] { spread_map(); });
  }
  spread_timer_.cancel();
  const cluster::SlotMapPtr map = std::exchange(held_, nullptr);
  const auto placement = std::make_shared<const cluster::MapPlacement>(*map, links_.peers());
  for (std::size_t shard = 0; shard < setup_.agents.size(); ++shard) {
    auto agent_map = std::make_unique<cluster::AgentMap>();
    agent_map->placement = placement;
    cluster::fill_ownership(agent_map->ownership, *map, access_.self.incarnation,
                            static_cast<std::uint16_t>(shard));
    agent_map->departures = departures_.of_shard(static_cast<std::uint16_t>(shard),
                                                 static_cast<std::uint16_t>(setup_.agents.size()));
    agent_map->refills = refills_.of_shard(static_cast<std::uint16_t>(shard),
                                           static_cast<std::uint16_t>(setup_.agents.size()));
    setup_.agents[shard].maps->control_send(std::move(agent_map));
  }
  const auto me = map->find(access_.self.incarnation);
  access_.events.tell(base::EventKind::map,
                      {{"epoch", map->epoch()},
                       {"members", map->members().size()},
                       {"slots_here", me ? map->slot_count(*me) : std::uint64_t{0}}});
}

// ---- objects that move with their slots ----

std::uint64_t ClusterPresence::sum(const char* section, const char* name) const {
  std::uint64_t sum = 0;
  for (std::size_t shard = 0; shard < setup_.agents.size(); ++shard) {
    sum += access_.counters.value(std::string(section) + '.' + std::to_string(shard) + '.' + name);
  }
  return sum;
}

SlotHandover::Hooks ClusterPresence::handover_hooks() {
  return {[this](const char* section, const char* name) { return sum(section, name); },
          [this] { return slots_here(); },
          [this] { return departures_.slots(); },
          [this] { return manager_->member().weight_in_map(); },
          [this] { return has_moved_all(); },
          [this](std::uint64_t weight_bytes) {
            manager_->want_weight(weight_bytes);
            manager_->report_load();
          },
          [this] { drop_departures(); }};
}

// The agents hear of it as of a map: what is on its way goes nowhere any more.
void ClusterPresence::drop_departures() {
  if (departures_.slots() == 0) return;
  departures_.clear();
  if (held_ == nullptr) held_ = manager_->member().map();
  spread_map();
}

std::string ClusterPresence::moves() const {
  return base::json_text(handover_.report());
}

// Every agent knows of the departures, and is through with them.
bool ClusterPresence::has_moved_all() const {
  if (departures_.slots() == 0) return true;
  return agents_epoch() >= manager_->member().epoch() && sum("moves", "departing_slots") == 0;
}

void ClusterPresence::begin_moves() {
  access_.events.tell(base::EventKind::move_begun, {{"slots", departures_.slots()}});
  handover_.begin_moves();
  moves_timer_.after(kMovesLookNs, [this] { look_at_moves(); });
}

void ClusterPresence::look_at_moves() {
  if (!has_moved_all()) return moves_timer_.after(kMovesLookNs, [this] { look_at_moves(); });
  departures_.clear();
  if (refills_.slots() == 0) links_.end_moves();
  const SlotHandover::Moved moved = handover_.end_moves();
  access_.events.tell(base::EventKind::move_ended, {{"objects", moved.objects},
                                                    {"bytes", moved.bytes},
                                                    {"refused", moved.refused},
                                                    {"cold_slots", moved.cold_slots}});
}

// The connections for them stay until every agent is through with them.
void ClusterPresence::look_at_refills() {
  const bool is_over = agents_epoch() >= manager_->member().epoch() && sum("refills", "slots") == 0;
  if (!is_over) return refills_timer_.after(kMovesLookNs, [this] { look_at_refills(); });
  refills_.clear();
  if (departures_.slots() == 0) links_.end_moves();
}

void ClusterPresence::deliver() {
  links_.deliver();
  for (const AgentPresence& agent : setup_.agents) agent.maps->control_collect();
  links_.on_agents_use(agents_epoch());
}

base::Epoch ClusterPresence::agents_epoch() const {
  base::Epoch epoch = ~base::Epoch{0};
  for (const AgentPresence& agent : setup_.agents) {
    epoch = std::min(epoch, agent.maps->control_epoch());
  }
  return epoch;
}

bool ClusterPresence::has_room_for(const cluster::HelloPeer& peer,
                                   const cluster::HelloRequest& request) {
  return request.purpose != cluster::HelloPurpose::data || links_.has_room_for(peer, request.shard);
}

void ClusterPresence::on_accepted(ipc::UniqueFd socket, const cluster::HelloResult& result) {
  if (result.request.purpose == cluster::HelloPurpose::data) {
    return links_.take(std::move(socket), result);
  }
  if (result.request.purpose == cluster::HelloPurpose::queue_pair) {
    return links_.take_queue_pair(std::move(socket), result);
  }
  access_.errors.record("cluster.listen", Status::invalid_argument,
                        cluster::full_name(result.peer) + " takes this daemon for its manager");
}

// ---- the manager ----

void ClusterPresence::on_expelled(const std::string& reason) {
  if (setup_.on_expelled) setup_.on_expelled(reason);
}

cluster::Heartbeat ClusterPresence::load() {
  cluster::Heartbeat heartbeat;
  heartbeat.recovering = setup_.recovers && setup_.recovers();
  heartbeat.draining = handover_.course().is_on();
  heartbeat.load = load_sum_.now();
  heartbeat.load_ms = access_.clock.now_ns() / base::kNsPerMs;
  heartbeat.objects = heartbeat.load.objects;
  heartbeat.used_bytes = heartbeat.load.used_bytes;
  if (const cluster::SlotMapPtr& map = manager_->member().map()) {
    heartbeat.reached = links_.reached(*map);
  }
  return heartbeat;
}

void ClusterPresence::drain(std::function<void()> when_done) {
  when_drained_ = std::move(when_done);
  handover_.stop();
  manager_->drain();
  look_at_drain();
}

void ClusterPresence::look_at_drain() {
  const cluster::ClusterMember& member = manager_->member();
  const bool is_over = setup_.pool_bytes == 0 || member.state() != cluster::LinkState::joined ||
                       (member.owns_nothing() && has_moved_all());
  if (!is_over) return drain_timer_.after(kDrainLookNs, [this] { look_at_drain(); });
  // Not from in here: the caller may not be ready for it.
  boost::asio::post(access_.io, std::exchange(when_drained_, nullptr));
}

// ---- questions ----

void ClusterPresence::ask(cluster::Question question, AdminAnswer answer) {
  if (asked_.size() >= kQuestionsMax) {
    return answer(Error{Status::out_of_memory, "too many questions are under way"});
  }
  const cluster::ClusterMember& member = manager_->member();
  const bool is_new = question.topic >= cluster::Topic::drain;
  if (is_new && member.state() == cluster::LinkState::joined && !member.manager_knows_drains()) {
    return answer(Error{Status::incompatible,
                        "the manager is of an earlier release, which passes no drains on: upgrade "
                        "the manager first"});
  }
  if (is_new && question.target.empty())
    question.target = cluster::full_name(member.config().identity);
  question.id = ++questions_;
  const Status sent = manager_->ask(question);
  if (sent != Status::ok) {
    return answer(Error{sent, sent == Status::unreachable
                                  ? "no manager to ask: " + manager_->status()
                                  : "'" + question.target + "' is no name of a daemon"});
  }
  Asked& asked = asked_[question.id];
  asked.answer = std::move(answer);
  asked.deadline = std::make_unique<Deadline>(access_.io);
  asked.deadline->after(kAnswerTimeNs, [this, id = question.id] {
    end_question(id, Error{Status::timeout, "the manager does not answer"});
  });
}

void ClusterPresence::ask_managers(AdminAnswer answer) {
  survey_.ask(setup_.environment.config.cluster.manager, std::move(answer));
}

void ClusterPresence::end_question(std::uint64_t id, Expected<std::string> text) {
  const auto found = asked_.find(id);
  if (found == asked_.end()) return;
  const Asked asked = std::move(found->second);
  asked_.erase(found);
  asked.answer(std::move(text));
}

void ClusterPresence::on_answer(const cluster::Answer& answer) {
  if (answer.status == Status::ok) return end_question(answer.id, answer.text);
  end_question(answer.id, Error{answer.status, answer.text});
}

cluster::Answer ClusterPresence::answer(const cluster::Question& question) {
  switch (question.topic) {
    case cluster::Topic::peers:
      return {0, Status::ok, peers()};
    case cluster::Topic::stats:
      return {0, Status::ok, stats_text(access_.counters, "")};
    case cluster::Topic::moves:
      return {0, Status::ok, moves()};
    case cluster::Topic::drain:
    case cluster::Topic::cancel_drain:
      return handover_.take(question);
    case cluster::Topic::nodes:
    case cluster::Topic::slots:
      break;
  }
  return {0, Status::invalid_argument, "the manager knows that, not this daemon"};
}

std::string ClusterPresence::peer_name(base::PeerId peer) const {
  const cluster::MapMember* const member = links_.peers().who(peer);
  return member == nullptr ? "unknown" : cluster::full_name(member->identity);
}

nlohmann::ordered_json ClusterPresence::membership() const {
  const cluster::ClusterMember& member = manager_->member();
  nlohmann::ordered_json out;
  out["cluster"] = access_.self.cluster;
  out["name"] = access_.self.name;
  out["incarnation"] = access_.self.incarnation.text();
  out["manager"] = setup_.environment.config.cluster.manager;
  out["state"] = cluster::link_state_name(member.state());
  out["state_ms"] = (access_.clock.now_ns() - member.state_since_ns()) / base::kNsPerMs;
  out["trouble"] = manager_->trouble();
  out["epoch"] = member.epoch();
  const cluster::Lineage& lineage =
      member.map() == nullptr ? cluster::Lineage{} : member.map()->life().lineage;
  out["lineage"] = lineage.is_set() ? lineage.text() : "unknown";
  out["common_protocol"] = member.cluster_version();
  out["agents_epoch"] = agents_epoch();
  out["slots"] = slots_here();
  out["departing_slots"] = departures_.slots();
  return out;
}

std::uint32_t ClusterPresence::slots_here() const {
  const cluster::SlotMapPtr& map = manager_->member().map();
  const auto me = map == nullptr ? std::nullopt : map->find(access_.self.incarnation);
  return me ? map->slot_count(*me) : 0U;
}

}  // namespace simm::control
