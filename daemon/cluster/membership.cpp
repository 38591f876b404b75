#include "daemon/cluster/membership.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "daemon/base/agent.h"

namespace simm::cluster {
namespace {

MapMember as_map_member(const DaemonIdentity& identity, const Join& join) {
  return MapMember{identity,    join.address,      join.port,
                   join.shards, join.weight_bytes, std::min(join.grace_ms, kMemberGraceMsMax)};
}

// Not every heartbeat has the load: the last one counts.
void keep_load(const Heartbeat& before, Heartbeat& now) {
  if (now.load_ms != 0) return;
  now.load_ms = before.load_ms;
  now.load = before.load;
}

// Of the next map.
bool is_owner(const KnownMember& member) {
  return member.owns_slots() && !member.owns_later &&
         (member.state == MemberState::live || member.state == MemberState::away);
}

// The next map says that it is back. Who recovers serves nothing yet.
bool is_to_be_told(const KnownMember& member) {
  return member.is_back && !member.last.recovering && is_owner(member);
}

}  // namespace

const char* member_state_name(MemberState state) noexcept {
  switch (state) {
    case MemberState::live:
      return "live";
    case MemberState::away:
      return "away";
    case MemberState::draining:
      return "draining";
    case MemberState::gone:
      return "gone";
  }
  return "unknown";
}

MemberState shown_state(const KnownMember& member) noexcept {
  const bool hands_over = member.state == MemberState::live && member.last.draining;
  return hands_over ? MemberState::draining : member.state;
}

Membership::Membership(const MembershipConfig& config, const base::Clock& clock)
    : config_(config), clock_(clock), looked_ns_(clock.now_ns()) {}

// As long as it was late, nobody was heard or answered, and everybody has hung up.
void Membership::look_at_clock() {
  const base::TimeNs now_ns = clock_.now_ns();
  const bool is_late = now_ns - looked_ns_ >= config_.member_timeout_ns / 2;
  if (is_late) names_kept_ns_ = now_ns + config_.member_timeout_ns + config_.redial_ns;
  looked_ns_ = now_ns;
}

void Membership::restore(const SlotMap& map) {
  names_kept_ns_ = clock_.now_ns() + config_.member_timeout_ns + config_.redial_ns;
  restore(map, false);
}

void Membership::restore_hearsay(const SlotMap& map) {
  restore(map, true);
}

void Membership::restore(const SlotMap& map, bool is_hearsay) {
  ++owners_revision_;
  look_at_all_again();
  std::size_t owners_known = count_owners();
  for (const MapMember& member : map.members()) {
    const std::string name = full_name(member.identity);
    if (const auto found = members_.find(name); found != members_.end()) {
      // It had slots after all, which this manager did not know when it joined.
      KnownMember& known = found->second;
      if (known.identity != member.identity) continue;
      known.owns_later = false;
      known.back_since = std::max(known.back_since, member.back_since);
      continue;
    }
    if (is_retired(member.identity) || namesake_of(member.identity) != nullptr) continue;
    if (owners_known == kMembersMax) return;
    ++owners_known;
    KnownMember& known = members_[name];
    known.identity = member.identity;
    names_[member.identity.incarnation] = name;
    known.joined = Join{member.address, member.port, member.shards, member.weight_bytes,
                        map.epoch(),    false,       false,         member.grace_ms};
    known.is_hearsay = is_hearsay;
    known.back_since = member.back_since;
    go_away(known, clock_.now_ns());
  }
}

const KnownMember* Membership::namesake_of(const DaemonIdentity& identity) const {
  const auto found = names_.find(identity.incarnation);
  const bool has_another = found != names_.end() && found->second != full_name(identity);
  return has_another ? &members_.at(found->second) : nullptr;
}

void Membership::restore(const std::vector<DaemonIdentity>& retired) {
  for (const DaemonIdentity& identity : retired) retire(identity);
}

void Membership::retire(const DaemonIdentity& identity) {
  retired_.push_back(identity);
  if (retired_.size() <= kRetiredMax) return;
  // Many nodes that start anew at once must not push out a storage daemon, which has had slots.
  const auto node = std::find_if(retired_.begin(), retired_.end(),
                                 [](const auto& known) { return known.role == ClusterRole::node; });
  retired_.erase(node == retired_.end() ? retired_.begin() : node);
}

bool Membership::is_retired(const DaemonIdentity& identity) const {
  return std::find(retired_.begin(), retired_.end(), identity) != retired_.end();
}

void Membership::retire_replaced(const SlotMap& before, const SlotMap& now) {
  std::unordered_map<std::string, const DaemonIdentity*> named;
  for (const MapMember& member : now.members()) {
    named.emplace(full_name(member.identity), &member.identity);
  }
  for (const MapMember& former : before.members()) {
    const auto namesake = named.find(full_name(former.identity));
    const bool is_replaced = namesake != named.end() && *namesake->second != former.identity;
    if (is_replaced && !is_retired(former.identity)) retire(former.identity);
  }
}

void Membership::go_away(KnownMember& member, base::TimeNs now_ns) {
  member.state = MemberState::away;
  // From now, not from when it was heard last: a manager that was stopped for a while has heard
  // nobody, and nobody else is to blame.
  member.away_ns = member.missed_ns = now_ns;
  member.was_unreached = false;
}

void Membership::note_return(KnownMember& member) const {
  if (member.was_unreached && !cut_off_ && member.owns_slots()) member.is_back = true;
  member.was_unreached = false;
}

// One that drains may die in silence as well, and must not keep its name from its successor.
bool Membership::lives(const KnownMember& member) const {
  const bool heard = clock_.now_ns() - member.heard_ns < config_.member_timeout_ns;
  return member.connection != 0 && heard &&
         (member.state == MemberState::live || member.state == MemberState::draining);
}

bool Membership::keeps_its_name(const KnownMember& member) const {
  if (lives(member)) return true;
  const base::TimeNs now_ns = clock_.now_ns();
  if (member.state == MemberState::gone) return false;
  if (now_ns < names_kept_ns_) return true;
  // A subscriber has nothing to lose, and its successor would lose time.
  const bool was_cut = member.connection == 0 && member.broken_ns != 0;
  return member.owns_slots() && was_cut && now_ns - member.broken_ns < config_.member_timeout_ns;
}

const Incarnation* Membership::former_holder(const std::string& name) const {
  const base::TimeNs now_ns = clock_.now_ns();
  const auto gone = gone_.find(name);
  if (gone != gone_.end() && now_ns < gone->second.until_ns) return &gone->second.incarnation;
  const auto lost = lost_.find(name);
  const bool is_kept = lost != lost_.end() && now_ns < names_kept_ns_;
  return is_kept ? &lost->second.incarnation : nullptr;
}

// Empty: it is allowed.
std::string Membership::not_allowed(const DaemonIdentity& identity, const Join& join) const {
  if (config_.owners.empty() || join.weight_bytes == 0) return {};
  const auto found = std::find_if(config_.owners.begin(), config_.owners.end(),
                                  [&](const auto& owner) { return owner.name == identity.name; });
  if (found == config_.owners.end()) {
    return "it is not among the owners of slots that the manager's configuration lists; add it to "
           "`owners` and start the manager anew";
  }
  if (join.weight_bytes > found->weight_bytes_max) {
    return "its pool of " + std::to_string(join.weight_bytes) + " bytes is larger than the " +
           std::to_string(found->weight_bytes_max) +
           " of `owners[].pool_bytes_max` in the manager's configuration; make one of both fit";
  }
  if (join.shards > found->shards_max) {
    return "its " + std::to_string(join.shards) + " shards are more than the " +
           std::to_string(found->shards_max) +
           " of `owners[].shards_max` in the manager's configuration; make one of both fit";
  }
  return {};
}

std::optional<JoinVerdict> Membership::refusal(const KnownMember* holder,
                                               const DaemonIdentity& identity,
                                               const Join& join) const {
  using Kind = JoinVerdict::Kind;
  const std::string name = full_name(identity);
  if (identity.role == ClusterRole::manager || !identity.incarnation.is_set()) {
    return JoinVerdict{Kind::refused_for_ever, name + " can not join a manager", 0};
  }
  if (is_retired(identity)) {
    return JoinVerdict{Kind::refused_for_ever,
                       name +
                           ": another incarnation has taken its place while it was away; start "
                           "it anew",
                       0};
  }
  if (join.weight_bytes > 0) {
    if (const Outcome checked = check_member(as_map_member(identity, join)); !checked) {
      return JoinVerdict{Kind::refused_for_ever, checked.error().context, 0};
    }
  }
  if (auto cause = not_allowed(identity, join); !cause.empty()) {
    return JoinVerdict{Kind::refused, name + ": " + cause, 0};
  }
  const bool is_other = holder != nullptr && holder->identity.incarnation != identity.incarnation;
  if (is_other && join.draining) {
    return JoinVerdict{Kind::refused_for_ever,
                       name + ": another daemon has this name (incarnation " +
                           holder->identity.incarnation.text() +
                           "), and one that drains has no slots to give up; end this one",
                       0};
  }
  if (is_other && keeps_its_name(*holder)) {
    const std::string whose = lives(*holder) ? " is taken by a live daemon (incarnation "
                                             : " belongs to a daemon that may be on its way back "
                                               "(incarnation ";
    return JoinVerdict{Kind::refused,
                       "the name " + name + whose + holder->identity.incarnation.text() + " at " +
                           holder->joined.address +
                           "); names are unique: stop that one, or choose another name",
                       0};
  }
  const Incarnation* const former = former_holder(name);
  if (former != nullptr && *former != identity.incarnation) {
    return JoinVerdict{Kind::refused,
                       "the name " + name +
                           " belongs to a daemon that may be on its way back (incarnation " +
                           former->text() + ")",
                       0};
  }
  if (const KnownMember* namesake = namesake_of(identity)) {
    return JoinVerdict{Kind::refused,
                       "the incarnation of " + name + " is that of " +
                           full_name(namesake->identity) + "; start one of both anew",
                       0};
  }
  const bool is_new_owner = join.weight_bytes > 0 && (holder == nullptr || !is_owner(*holder));
  if (is_new_owner && !has_room_for_an_owner()) {
    return JoinVerdict{Kind::refused, "the cluster has as many owners of slots as it may", 0};
  }
  if (holder == nullptr) {
    if (members_.size() >= config_.daemons_max) {
      return JoinVerdict{
          Kind::refused,
          "the cluster has " + std::to_string(members_.size()) + " daemons, that is its limit", 0};
    }
  }
  return std::nullopt;
}

JoinVerdict Membership::join(ConnectionId connection, const DaemonIdentity& identity,
                             const Join& join, std::uint16_t version) {
  look_at_clock();
  const std::string name = full_name(identity);
  const auto held = members_.find(name);
  if (auto refused = refusal(held == members_.end() ? nullptr : &held->second, identity, join)) {
    return std::move(*refused);
  }
  JoinVerdict verdict;
  const bool held_before = held != members_.end();
  KnownMember& member = members_[name];
  // What it had it keeps; more would serve nobody before it has recovered.
  const bool owned = held_before && is_owner(member);
  if (member.connection != connection) verdict.superseded = member.connection;
  if (member.identity.incarnation.is_set() && member.identity.incarnation != identity.incarnation) {
    retire(member.identity);
  }
  connections_.erase(member.connection);
  connections_[connection] = &member;
  lost_.erase(name);
  gone_.erase(name);
  names_.erase(member.identity.incarnation);
  names_[identity.incarnation] = name;
  // Steps of a drain are Joins on the connection that there is.
  const bool on_its_connection = member.connection == connection;
  const bool drains_on = on_its_connection && member.last.draining;
  const MapMember before = as_map_member(member.identity, member.joined);
  if (!held_before || member.identity.incarnation != identity.incarnation) {
    member.back_since = 0;
    member.is_back = member.was_unreached = false;
  } else if (!on_its_connection && join.map_epoch == 0) {
    member.is_back = true;  // another process, with the memory of the one before
  } else if (!lives(member)) {
    note_return(member);
  }
  look_at_all_again();
  member.identity = identity;
  member.joined = join;
  member.version = version;
  member.is_hearsay = false;
  member.state = join.draining ? MemberState::draining : MemberState::live;
  member.owns_later = join.recovering && !owned;
  const bool is_same = before == as_map_member(identity, join) && owned == is_owner(member);
  if (member.owns_slots() ? !is_same : owned) ++owners_revision_;
  member.connection = connection;
  member.heard_ns = clock_.now_ns();
  Heartbeat first{0, join.map_epoch, 0, 0, join.recovering};
  first.draining = drains_on;
  if (on_its_connection) keep_load(member.last, first);
  member.last = first;
  if (is_to_be_told(member)) ++owners_revision_;
  settle_version(lowest_version());
  return verdict;
}

bool Membership::heard(ConnectionId connection, const Heartbeat& heartbeat) {
  look_at_clock();
  KnownMember* member = find_mutable(connection);
  if (member == nullptr) return false;
  member->heard_ns = clock_.now_ns();
  const Heartbeat before = std::exchange(member->last, heartbeat);
  keep_load(before, member->last);
  if (!heartbeat.recovering && member->owns_later && has_room_for_an_owner()) {
    member->owns_later = false;
    ++owners_revision_;
  }
  // Its place may have been taken while it was gone.
  const bool comes_back =
      member->state == MemberState::gone && (!member->owns_slots() || has_room_for_an_owner());
  if (comes_back) {
    ++owners_revision_;
    gone_.erase(full_name(member->identity));
  }
  if (member->state == MemberState::away || comes_back) {
    note_return(*member);
    look_at_all_again();
    member->state = MemberState::live;
    if (is_to_be_told(*member)) ++owners_revision_;
  }
  if (member->is_back && before.recovering && !heartbeat.recovering) ++owners_revision_;
  return true;
}

void Membership::drain(ConnectionId connection) {
  look_at_clock();
  KnownMember* member = find_mutable(connection);
  if (member == nullptr) return;
  look_at_all_again();
  member->heard_ns = clock_.now_ns();
  member->state = MemberState::draining;
  ++owners_revision_;
}

void Membership::disconnected(ConnectionId connection) {
  look_at_clock();
  KnownMember* member = find_mutable(connection);
  connections_.erase(connection);
  if (member == nullptr) return;
  look_at_all_again();
  member->connection = 0;
  member->broken_ns = clock_.now_ns();
  const bool left = member->state == MemberState::draining;
  if (!left && !member->owns_slots() && lost_.size() < config_.daemons_max) {
    lost_[full_name(member->identity)] = {member->identity.incarnation, clock_.now_ns()};
  }
  if (member->state == MemberState::live) go_away(*member, clock_.now_ns());
  if (left) ++owners_revision_;
  if (!matters(*member)) forget(members_.find(full_name(member->identity)));
}

// Whom at least half of the daemons that say so have connections to is at work, though it is not
// heard here. Whom one of them has none to, that one writes without.
void Membership::ask_the_others(const SlotMap& map, base::TimeNs now_ns) {
  struct Away {
    KnownMember* member;
    MemberIndex index;
    std::size_t reached_by;
  };
  std::vector<Away> away;
  for (auto& [name, member] : members_) {
    if (member.state != MemberState::away || !member.owns_slots()) continue;
    const auto index = map.find(member.identity.incarnation);
    if (index) away.push_back({&member, *index, 0});
  }
  if (away.empty()) return;
  std::size_t tellers = 0;
  for (const auto& [name, member] : members_) {
    if (member.state != MemberState::live || !member.last.reached.has_value()) continue;
    if (member.last.map_epoch != map.epoch()) continue;
    ++tellers;
    for (Away& each : away) each.reached_by += member.last.reached->test(each.index) ? 1U : 0U;
  }
  for (const Away& each : away) {
    if (each.reached_by > 0 && 2 * each.reached_by >= tellers) each.member->missed_ns = now_ns;
    if (each.reached_by < tellers) each.member->was_unreached = true;
  }
}

Unreached Membership::unreached(const SlotMap& map) const {
  Unreached result;
  result.by.resize(map.members().size());
  MemberSet named;
  for (std::size_t i = 0; i < map.members().size(); ++i) named.set(i);
  for (const auto& [name, member] : members_) {
    if (member.state != MemberState::live || !member.last.reached.has_value()) continue;
    if (member.last.map_epoch != map.epoch()) continue;
    ++result.tellers;
    const MemberSet missing = named & ~*member.last.reached;
    if (missing.none()) continue;
    for (std::size_t i = 0; i < result.by.size(); ++i) result.by[i] += missing.test(i) ? 1U : 0U;
  }
  return result;
}

// A manager looks many times a second, and a thousand members are in as many places of memory.
// Until the first of them can have been silent for too long, and nobody is another than before, a
// look would tell nothing new.
const Membership::Census& Membership::take_census(base::TimeNs now_ns) {
  census_.went_away = 0;
  if (now_ns < census_.good_until_ns) return census_;
  Census seen;
  seen.good_until_ns = base::kNoDeadline;
  seen.lowest_version = members_.empty() ? version_ : kHelloVersionMax;
  for (auto& [name, member] : members_) {
    const bool silent = now_ns - member.heard_ns >= config_.member_timeout_ns;
    if (member.state == MemberState::live && silent) {
      go_away(member, now_ns);
      ++seen.went_away;
    }
    const bool is_live = member.state == MemberState::live;
    if (is_live) {
      seen.good_until_ns =
          std::min(seen.good_until_ns, member.heard_ns + config_.member_timeout_ns);
    }
    const bool is_away = member.state == MemberState::away;
    seen.lowest_version = std::min(seen.lowest_version, std::max(member.version, kHelloVersionMin));
    seen.heard += is_live ? 1U : 0U;
    seen.all += is_live || (is_away && !member.is_hearsay) ? 1U : 0U;
    seen.hears_owner |= is_live && member.owns_slots();
    seen.is_someone_away |= is_away;
    seen.does_someone_not_matter |= !matters(member);
  }
  census_ = seen;
  return census_;
}

int Membership::tick(const SlotMap* map) {
  look_at_clock();
  const base::TimeNs now_ns = clock_.now_ns();
  const Census seen = take_census(now_ns);  // a copy: what follows changes members
  int changed = seen.went_away;
  settle_version(seen.lowest_version);
  std::erase_if(gone_, [now_ns](const auto& entry) { return now_ns >= entry.second.until_ns; });
  std::erase_if(lost_, [&](const auto& entry) {
    return now_ns - entry.second.since_ns >= kLostGraces * config_.rejoin_grace_ns;
  });
  // Of all daemons that it should hear, and itself, it hears no more than half, or no owner of
  // slots. Most likely nobody is away but we are. When that ends, everybody has the whole grace to
  // be heard again.
  const bool hears_too_few = !seen.hears_owner || 2 * seen.heard <= seen.all + lost_.size();
  const bool was_cut_off = std::exchange(cut_off_, hears_too_few);
  if (cut_off_) return changed;
  const base::TimeNs pause_ns =
      std::min(config_.rejoin_grace_ns / 8, config_.member_timeout_ns / 2);
  if (map != nullptr && now_ns - asked_ns_ >= pause_ns) {
    asked_ns_ = now_ns;
    if (seen.is_someone_away) ask_the_others(*map, now_ns);
  }
  if (!seen.is_someone_away && !seen.does_someone_not_matter) return changed;
  for (auto& [name, member] : members_) {
    if (member.state != MemberState::away) continue;
    if (was_cut_off) member.missed_ns = now_ns;
    if (now_ns - member.missed_ns < grace_ns(member)) continue;
    look_at_all_again();
    member.state = MemberState::gone;
    ++owners_revision_;
    ++changed;
    if (now_ns < names_kept_ns_ && gone_.size() < config_.daemons_max) {
      gone_[name] = {member.identity.incarnation, names_kept_ns_};
    }
  }
  for (auto at = members_.begin(); at != members_.end();) {
    const auto looked_at = at++;
    if (!matters(looked_at->second)) forget(looked_at);
  }
  return changed;
}

base::TimeNs Membership::grace_ns(const KnownMember& member) const {
  return std::max(config_.rejoin_grace_ns,
                  std::min(member.joined.grace_ms, kMemberGraceMsMax) * base::kNsPerMs);
}

bool Membership::matters(const KnownMember& member) {
  const bool is_awaited = member.state == MemberState::away && member.owns_slots();
  return member.connection != 0 || member.state == MemberState::live || is_awaited;
}

void Membership::forget(std::map<std::string, KnownMember>::iterator at) {
  look_at_all_again();
  names_.erase(at->second.identity.incarnation);
  members_.erase(at);
}

std::size_t Membership::count_owners() const {
  return static_cast<std::size_t>(std::count_if(
      members_.begin(), members_.end(), [](const auto& entry) { return is_owner(entry.second); }));
}

std::uint16_t Membership::lowest_version() const {
  std::uint16_t lowest = members_.empty() ? version_ : kHelloVersionMax;
  for (const auto& [name, member] : members_) {
    lowest = std::min(lowest, std::max(member.version, kHelloVersionMin));
  }
  return lowest;
}

void Membership::settle_version(std::uint16_t lowest) {
  if (lowest <= version_) {
    version_ = lowest;
    newer_since_ns_.reset();
    return;
  }
  if (!newer_since_ns_) newer_since_ns_ = clock_.now_ns();
  if (clock_.now_ns() - *newer_since_ns_ >= config_.version_settle_ns) version_ = lowest;
}

std::vector<MapMember> Membership::owners(base::Epoch next) const {
  std::vector<MapMember> owners;
  for (const auto& [name, member] : members_) {
    if (!is_owner(member)) continue;
    owners.push_back(as_map_member(member.identity, member.joined));
    const bool says_so = next != 0 && is_to_be_told(member);
    owners.back().back_since = says_so ? next : member.back_since;
  }
  return owners;
}

void Membership::note_map(const SlotMap& map) {
  for (const MapMember& told : map.members()) {
    const auto found = members_.find(full_name(told.identity));
    if (found == members_.end() || found->second.identity != told.identity) continue;
    found->second.back_since = told.back_since;
    if (told.back_since == map.epoch() && is_to_be_told(found->second)) {
      found->second.is_back = false;
    }
  }
}

bool Membership::someone_drains(const SlotMap& map) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.state == MemberState::draining &&
           map.find(entry.second.identity.incarnation).has_value();
  });
}

const KnownMember* Membership::find(ConnectionId connection) const {
  return find_mutable(connection);
}

KnownMember* Membership::find_mutable(ConnectionId connection) const {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : found->second;
}

}  // namespace simm::cluster
