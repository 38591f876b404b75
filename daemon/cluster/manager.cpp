#include "daemon/cluster/manager.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/cluster_codec.h"
#include "daemon/cluster/drain_rules.h"
#include "daemon/cluster/slot_map_builder.h"
#include "simm/check.h"

namespace simm::cluster {
namespace {

bool same_members(const SlotMap* map, const std::vector<MapMember>& owners) {
  if (map == nullptr) return owners.empty();
  // Both are in the order of their full names.
  return map->members() == owners;
}

void note_ancestor(std::vector<Ancestor>& ancestors, const Ancestor& noted) {
  const auto found = std::find_if(ancestors.begin(), ancestors.end(), [&](const Ancestor& known) {
    return known.lineage == noted.lineage;
  });
  if (found != ancestors.end()) {
    found->epoch = std::max(found->epoch, noted.epoch);
    return;
  }
  ancestors.insert(ancestors.begin(), noted);
  if (ancestors.size() > kAncestorsMax) ancestors.pop_back();
}

bool contradict(const SlotMap& a, const SlotMap& b) {
  const Lineage& of_a = a.life().lineage;
  const Lineage& of_b = b.life().lineage;
  return a.epoch() == b.epoch() || (of_a.is_set() && of_b.is_set() && of_a != of_b);
}

}  // namespace

Manager::Manager(const ManagerConfig& config, const base::Clock& clock, base::Random& random,
                 Coordinator& coordinator, ManagerLinks& links)
    : config_(config),
      clock_(clock),
      random_(random),
      coordinator_(coordinator),
      links_(links),
      membership_(config.membership, clock),
      pace_(config.map_interval_ns, config.map_burst) {}

Outcome Manager::start() {
  const auto stored = coordinator_.load();
  if (!stored) return stored.error();
  if (!stored->has_value()) return Done{};
  const StoredState& state = *stored.value();
  const auto decoded = decode_manager_state(state.bytes);
  if (!decoded) return decoded.error();
  if (decoded->map->epoch() != state.epoch) {
    return Error{Status::corrupt, "the manager's state of epoch " + std::to_string(state.epoch) +
                                      " holds a map of epoch " +
                                      std::to_string(decoded->map->epoch())};
  }
  use(decoded.value());
  return Done{};
}

void Manager::use(const ManagerState& state) {
  map_ = state.map;
  lineage_ = map_->life().lineage;
  stored_ = map_->epoch();
  pushed_ = encode(ManagerMessage(MapPush{map_})).value();
  membership_.restore(*map_);
  membership_.restore(state.retired);
}

// ---- connections ----

void Manager::on_connected(ConnectionId connection, const DaemonIdentity& identity,
                           std::uint16_t version, std::uint64_t features) {
  Connection& added = connections_[connection];
  added.identity = identity;
  added.version = version;
  added.takes_deltas = (features & kFeatureMapDeltas) != 0;
  added.knows_drains = (features & kFeatureDrains) != 0;
  added.since_ns = seen_ns_ = clock_.now_ns();
  unjoined_.push_back(connection);
}

void Manager::on_closed(ConnectionId connection) {
  membership_.disconnected(connection);
  connections_.erase(connection);
  for (auto& [id, question] : forwarded_) {
    if (question.asked == connection) question.until_ns = 0;  // answered in the next turn
  }
}

void Manager::on_message(ConnectionId connection, std::span<const std::byte> message) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;  // it was closed from here
  auto decoded = decode_member_message(message);
  if (!decoded) return drop(connection, decoded.error().context);
  if (!found->second.joined && !std::holds_alternative<Join>(*decoded)) {
    return drop(connection, "it has not joined");
  }
  if (const auto* const heartbeat = std::get_if<Heartbeat>(&*decoded)) {
    return take(connection, found->second, *heartbeat);  // nearly all are
  }
  std::visit(
      [&](const auto& value) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, Heartbeat>) {
          take(connection, value);
        }
      },
      *decoded);
}

void Manager::send(ConnectionId to, const ManagerMessage& message) {
  const auto bytes = encode(message);
  SIMM_CHECK(bytes.has_value());
  links_.send(to, *bytes);
}

void Manager::drop(ConnectionId connection, const std::string& why) {
  links_.close(connection, why);
  on_closed(connection);
}

void Manager::refuse(ConnectionId connection, bool final, const std::string& reason) {
  send(connection, Refused{final, reason});
  drop(connection, reason);
}

void Manager::push(ConnectionId to, Connection& connection) {
  if (map_ == nullptr) return;
  const bool has_base =
      connection.has_epoch == delta_epoch_ && connection.has_digest == delta_digest_;
  if (delta_.empty() || !connection.takes_deltas || !has_base) return push_whole(to, connection);
  note_pushed(connection, true);
  links_.send(to, delta_);
}

void Manager::push_whole(ConnectionId to, Connection& connection) {
  note_pushed(connection, false);
  links_.send(to, pushed_);
}

void Manager::note_pushed(Connection& connection, bool is_delta) {
  connection.has_epoch = map_->epoch();
  connection.has_digest = map_->digest();
  connection.pushed_ns = clock_.now_ns();
  connection.pushed_delta = is_delta;
}

// Whoever has map_ needs no more than this of the map that comes now.
void Manager::note_delta(const SlotMap& now) {
  delta_.clear();
  if (map_ == nullptr) return;
  auto bytes = encode(ManagerMessage(delta_of(*map_, now)));
  // No use in one that is longer than the map, and none that can not be sent.
  if (!bytes || bytes->size() >= pushed_.size()) return;
  delta_ = std::move(*bytes);
  delta_epoch_ = map_->epoch();
  delta_digest_ = map_->digest();
}

// ---- messages ----

void Manager::take(ConnectionId from, const Join& join) {
  Connection& connection = connections_.at(from);
  const bool stranger = is_stranger(join.lineage, join.map_epoch);
  if (stranger && !takes_strangers()) {
    ++strangers_refused_;
    return refuse(from, false, stranger_text(join.lineage, join.map_epoch));
  }
  const JoinVerdict verdict = membership_.join(from, connection.identity, join, connection.version);
  if (verdict.kind != JoinVerdict::Kind::accepted) {
    const bool final = verdict.kind == JoinVerdict::Kind::refused_for_ever;
    return refuse(from, final, verdict.reason);
  }
  if (verdict.superseded != 0) {
    drop(verdict.superseded, "a newer connection has taken its place");
  }
  connection.joined = true;
  connection.has_epoch = join.map_epoch;
  connection.has_digest = join.map_digest;
  if (first_join_ns_ == 0) first_join_ns_ = clock_.now_ns();
  connection.told = {0, epoch(), membership_.version(), heartbeat_interval_ns()};
  connection.told_ns = clock_.now_ns();
  send(from, Joined{connection.told.heartbeat_ns, epoch(), membership_.version()});
  if (stranger || lacks(join.map_epoch, join.map_digest)) return send(from, MapWanted{});
  if (join.map_epoch < epoch()) push(from, connection);
}

base::TimeNs Manager::heartbeat_interval_ns() const {
  const base::TimeNs longest_ns =
      std::max(config_.heartbeat_ns, config_.membership.member_timeout_ns / 4);
  return std::clamp(connections_.size() * config_.heartbeat_share_ns, config_.heartbeat_ns,
                    longest_ns);
}

void Manager::take(ConnectionId from, Connection& connection, const Heartbeat& heartbeat) {
  if (!membership_.heard(from, heartbeat)) return drop(from, "it has not joined");
  acknowledge(from, connection, heartbeat.sequence);
  if (lacks(heartbeat.map_epoch, heartbeat.map_digest)) return send(from, MapWanted{});
  if (heartbeat.map_epoch < epoch()) push_again(from, connection, heartbeat);
}

void Manager::acknowledge(ConnectionId to, Connection& connection, std::uint64_t sequence) {
  const base::TimeNs interval_ns = heartbeat_interval_ns();
  const base::TimeNs now_ns = clock_.now_ns();
  const HeartbeatAck ack{sequence, epoch(), membership_.version(), interval_ns};
  const bool are_many = interval_ns > config_.heartbeat_ns;
  const base::TimeNs pause_ns = are_many ? std::min(kAnswerPauseNs, 4 * interval_ns) : 0;
  connection.told.sequence = sequence;
  if (connection.told == ack && now_ns - connection.told_ns < pause_ns) return;
  connection.told = ack;
  connection.told_ns = now_ns;
  send(to, ack);
}

// What was pushed is on its way, or was lost, or could not be used: then the whole map is the
// remedy.
void Manager::push_again(ConnectionId to, Connection& connection, const Heartbeat& heartbeat) {
  const bool is_underway = clock_.now_ns() - connection.pushed_ns < config_.push_retry_ns;
  const bool is_of_no_use = heartbeat.wants_map && connection.pushed_delta;
  if (!is_underway || is_of_no_use) push_whole(to, connection);
}

void Manager::take(ConnectionId from, const MapReport& report) {
  // No cluster has had so many maps, and the next one needs an epoch as well.
  if (report.map->epoch() > kEpochMax / 2) {
    return drop(from, "its map has epoch " + std::to_string(report.map->epoch()));
  }
  const Lineage& lineage = report.map->life().lineage;
  if (is_stranger(lineage, report.map->epoch()) && !takes_strangers()) {
    return drop(from, stranger_text(lineage, report.map->epoch()));
  }
  take_over(report.map);
}

bool Manager::lacks(base::Epoch epoch_there, std::uint64_t digest) const noexcept {
  if (map_ == nullptr || epoch_there != epoch()) return epoch_there > epoch();
  return digest != 0 && digest != map_->digest();
}

bool Manager::is_stranger(const Lineage& lineage, base::Epoch epoch_there) const noexcept {
  return map_ != nullptr && epoch_there != 0 && map_->is_of_another_life(lineage, epoch_there);
}

bool Manager::takes_strangers() const {
  return clock_.now_ns() < strangers_until_ns_;
}

std::string Manager::stranger_text(const Lineage& lineage, base::Epoch epoch_there) const {
  return "its map of epoch " + std::to_string(epoch_there) + " is of lineage " + lineage.text() +
         ", which this manager's map of epoch " + std::to_string(epoch()) + " and lineage " +
         map_->life().lineage.text() +
         " does not go on from: there are two managers, or a manager's state was lost; stop the "
         "wrong manager, or restart this daemon, which then joins with an empty cache";
}

void Manager::take_over(const SlotMapPtr& map) {
  if (map_ != nullptr && map_->routes_as(*map)) return;
  if (!is_stranger(map->life().lineage, map->epoch()) && map->epoch() < epoch()) return;
  const bool is_known = reported_ != nullptr && reported_->routes_as(*map);
  if (reported_ != nullptr && !is_known && contradict(*reported_, *map)) contested_ = true;
  for (const Ancestor& former : map->life().ancestors) note_ancestor(brought_, former);
  if (map->life().lineage.is_set()) {
    note_ancestor(brought_, {map->life().lineage, map->epoch()});
  }
  if (is_known || (reported_ != nullptr && map->epoch() <= reported_->epoch())) return;
  reported_ = map;
  is_noted_ = false;
  membership_.restore_hearsay(*reported_);
}

void Manager::take(ConnectionId from, const Leave&) {
  membership_.drain(from);
}

void Manager::take(ConnectionId from, const Question& question) {
  const bool mine = question.topic == Topic::nodes || question.topic == Topic::slots ||
                    (question.topic == Topic::stats && question.target.empty());
  if (mine) return answer(from, question.id, Status::ok, report(question.topic, question.target));
  const auto asked = addressee_of(question);
  if (!asked) return answer(from, question.id, asked.status(), asked.error().context);
  if (forwarded_.size() >= config_.questions_max) {
    return answer(from, question.id, Status::out_of_memory, "too many questions are under way");
  }
  const std::uint64_t id = ++forwarded_ids_;
  forwarded_[id] = {from, question.id, *asked, clock_.now_ns() + config_.answer_timeout_ns,
                    question.topic};
  Question passed_on = question;
  passed_on.id = id;
  send(*asked, passed_on);
}

void Manager::take(ConnectionId from, const Answer& answered) {
  const auto found = forwarded_.find(answered.id);
  if (found == forwarded_.end() || found->second.asked != from) return;  // too late, or made up
  const Forwarded question = found->second;
  forwarded_.erase(found);
  answer(question.requester, question.requester_id, answered.status, answered.text);
}

void Manager::answer(ConnectionId to, std::uint64_t id, Status status, std::string text) {
  if (connections_.count(to) == 0) return;
  if (text.size() > kAnswerBytesMax) {
    status = Status::no_space;
    text = "the answer has " + std::to_string(text.size()) + " bytes";
  }
  send(to, Answer{id, status, std::move(text)});
}

Expected<ConnectionId> Manager::addressee_of(const Question& question) const {
  const auto target = find_target(membership_, question.target);
  if (!target) return target.error();
  const ConnectionId asked = target.value()->connection;
  if (question.topic < Topic::drain) return asked;
  if (!connections_.at(asked).knows_drains) {
    return Error{Status::incompatible,
                 full_name(target.value()->identity) +
                     " is of an earlier release, which does not drain on request: stop it "
                     "(SIGTERM), or upgrade it first"};
  }
  if (question.topic == Topic::moves) return asked;
  std::set<ConnectionId> on_their_way;
  for (const auto& [id, forwarded] : forwarded_) {
    if (forwarded.topic == Topic::drain) on_their_way.insert(forwarded.asked);
  }
  if (Outcome allowed = may_drain(membership_, *target.value(), question, on_their_way); !allowed) {
    return allowed.error();
  }
  return asked;
}

// ---- time and maps ----

void Manager::note_changes() {
  const std::uint64_t revision = membership_.owners_revision();
  if (std::exchange(seen_, revision) != revision) seen_ns_ = clock_.now_ns();
  if (is_noted_ && noted_ == revision) return;
  if (!is_noted_ || drains_noted_ != revision) {
    drains_noted_ = revision;
    drains_ = map_ != nullptr && membership_.someone_drains(*map_);
  }
  // Many may join within the time to settle: they are compared at its end.
  if (changed_ns_ != 0 && clock_.now_ns() < map_due_ns()) return;
  is_noted_ = true;
  noted_ = revision;
  // A store of which nobody said that it went well may still happen, also when the change that it
  // was for has been taken back. Only the next one that goes well rules that out.
  const bool is_in_doubt = !store_error_.empty();
  const bool due =
      is_in_doubt || reported_ != nullptr || !same_members(map_.get(), owners_of(epoch() + 1));
  if (!due) changed_ns_ = 0;
  if (due && changed_ns_ == 0) changed_ns_ = clock_.now_ns();
}

base::TimeNs Manager::map_due_ns() const {
  if (changed_ns_ == 0) return base::kNoDeadline;
  base::TimeNs due_ns = settled_ns();
  if (map_ == nullptr) {
    if (first_join_ns_ == 0) return base::kNoDeadline;
    due_ns = std::max(due_ns, first_join_ns_ + config_.first_map_wait_ns);
  } else if (drains_ && changed_ns_ - published_ns_ >= 5 * config_.settle_ns) {
    due_ns = changed_ns_;
  }
  return std::max({due_ns, store_again_ns_, pace_.next_ns()});
}

// Of hundreds that come together the first ones would have a map each, which all have to read, and
// the last ones would wait for the pace of maps.
base::TimeNs Manager::settled_ns() const {
  return std::min(std::max(changed_ns_, seen_ns_) + config_.settle_ns,
                  changed_ns_ + std::max(config_.settle_ns, config_.settle_ns_max));
}

bool Manager::map_is_due() const {
  return changed_ns_ != 0 && clock_.now_ns() >= map_due_ns();
}

// Nobody has seen that map. The last one stays, and the next is tried again.
bool Manager::put_off(const Error& cause) {
  store_error_ = cause.context;
  store_again_ns_ = clock_.now_ns() + config_.store_retry_ns;
  return false;
}

MapLife Manager::next_life() {
  if (!lineage_.is_set()) lineage_ = Lineage::draw(random_);
  MapLife life{lineage_, {}};
  if (map_ != nullptr) life.ancestors = map_->life().ancestors;
  for (auto at = brought_.rbegin(); at != brought_.rend(); ++at) {
    if (at->lineage != lineage_) note_ancestor(life.ancestors, *at);
  }
  return life;
}

// The map in force, if nobody can have had another one behind it: objects move on along this row.
// A manager whose state was lost may not have been brought the newest map yet.
std::uint64_t Manager::followed() const {
  if (map_ == nullptr || reported_ != nullptr || contested_) return 0;
  const bool had_predecessor = !map_->life().ancestors.empty();
  if (had_predecessor && clock_.now_ns() < strangers_until_ns_) return 0;
  return map_->digest();
}

// Who is back matters only where objects are kept twice.
std::vector<MapMember> Manager::owners_of(base::Epoch next) const {
  return membership_.owners(config_.mirrors == Mirrors::apart ? next : 0);
}

Expected<SlotMapPtr> Manager::next_map() {
  const base::Epoch reported = reported_ == nullptr ? 0 : reported_->epoch();
  const base::Epoch next = std::max(epoch(), reported) + 1;
  const SlotMap* previous = reported_ != nullptr ? reported_.get() : map_.get();
  // A map that was taken over may contradict those that this manager has issued meanwhile, or that
  // a manager with the same state has.
  const bool is_fork = reported_ != nullptr && (issued_ || reported <= epoch());
  const SlotMap* current = is_fork ? map_.get() : nullptr;
  if (contested_) previous = current = nullptr;
  return build_slot_map(next, owners_of(next), previous, current, next_life(), followed(),
                        config_.mirrors);
}

bool Manager::publish() {
  ManagerState state;
  auto built = next_map();
  if (!built) return put_off(built.error());
  state.map = std::move(*built);
  const base::Epoch next = state.map->epoch();
  if (map_ != nullptr) membership_.retire_replaced(*map_, *state.map);
  state.retired = membership_.retired();
  auto bytes = encode(state);
  if (!bytes) return put_off(bytes.error());
  auto message = encode(ManagerMessage(MapPush{state.map}));
  if (!message) return put_off(message.error());
  const Outcome stored = coordinator_.store(stored_, StoredState{next, std::move(*bytes)});
  if (!stored) {
    store_error_ = stored.error().context;
    take_over_stored();
    // Both may have taken their time, and other work has waited.
    store_again_ns_ = clock_.now_ns() + config_.store_retry_ns;
    return false;
  }
  store_error_.clear();
  if (map_ == nullptr) {
    strangers_until_ns_ = clock_.now_ns() + config_.membership.rejoin_grace_ns;
  }
  published_ns_ = clock_.now_ns();
  pace_.on_map(published_ns_);
  issued_ = true;
  stored_ = next;
  pushed_ = std::move(*message);
  note_delta(*state.map);
  map_ = state.map;
  membership_.note_map(*map_);
  reported_ = nullptr;
  brought_.clear();
  contested_ = false;
  changed_ns_ = 0;
  is_noted_ = false;
  for (auto& [id, connection] : connections_) {
    if (connection.joined) push(id, connection);
  }
  return true;
}

// After a store that failed. What is there now may be that very state after all, or another
// manager's. The next map has to build on it.
void Manager::take_over_stored() {
  const auto there = coordinator_.load();
  if (!there) {
    store_error_ = there.error().context;
    return;
  }
  stored_ = there->has_value() ? there.value()->epoch : 0;
  if (stored_ <= epoch()) return;
  if (const auto state = decode_manager_state(there.value()->bytes)) {
    take_over(state->map);
  } else {
    store_error_ = state.error().context;
  }
}

int Manager::drop_late() {
  int dropped = 0;
  while (!unjoined_.empty()) {
    const ConnectionId id = unjoined_.front();
    const auto found = connections_.find(id);
    const bool waits = found != connections_.end() && !found->second.joined;
    if (waits && clock_.now_ns() - found->second.since_ns < config_.join_timeout_ns) break;
    unjoined_.pop_front();
    if (!waits) continue;
    drop(id, "it has not joined in time");
    ++dropped;
  }
  return dropped;
}

int Manager::answer_late() {
  int done = 0;
  for (auto at = forwarded_.begin(); at != forwarded_.end();) {
    const Forwarded question = at->second;
    if (clock_.now_ns() < question.until_ns) {
      ++at;
      continue;
    }
    at = forwarded_.erase(at);
    answer(question.requester, question.requester_id, Status::timeout,
           "that daemon does not answer");
    ++done;
  }
  return done;
}

int Manager::sweep() {
  const base::TimeNs now_ns = clock_.now_ns();
  if (now_ns - swept_ns_ < heartbeat_interval_ns() / 4) return 0;
  swept_ns_ = now_ns;
  return drop_late() + membership_.tick(map_.get());
}

int Manager::do_work() {
  int done = answer_late() + sweep();
  note_changes();
  if (map_is_due() && publish()) ++done;
  return done;
}

base::TimeNs Manager::next_deadline_ns() const {
  // Silence is looked for as often as heartbeats come.
  base::TimeNs next_ns = std::min(swept_ns_ + config_.heartbeat_ns, map_due_ns());
  for (const auto& [id, question] : forwarded_) next_ns = std::min(next_ns, question.until_ns);
  return next_ns;
}

}  // namespace simm::cluster
