#include "daemon/cluster/cluster_member.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/cluster_codec.h"
#include "simm/check.h"

namespace simm::cluster {
namespace {

// For people who watch; a heartbeat may come many times as often.
constexpr base::TimeNs kLoadIntervalNs = base::kNsPerSecond;

}  // namespace

const char* link_state_name(LinkState state) noexcept {
  switch (state) {
    case LinkState::waiting:
      return "waiting for the manager";
    case LinkState::joining:
      return "joining";
    case LinkState::joined:
      return "joined";
    case LinkState::alone:
      return "alone, with the last map";
    case LinkState::refused:
      return "refused";
    case LinkState::expelled:
      return "expelled";
  }
  return "unknown";
}

ClusterMember::ClusterMember(const MemberConfig& config, const base::Clock& clock, MemberLink& link,
                             MemberEvents& events)
    : config_(config),
      clock_(clock),
      link_(link),
      events_(events),
      state_since_ns_(clock.now_ns()),
      wanted_bytes_(config.weight_bytes) {}

void ClusterMember::enter(LinkState state, std::string reason) {
  reason_ = std::move(reason);
  if (state_ == state) return;
  state_ = state;
  state_since_ns_ = clock_.now_ns();
}

void ClusterMember::send(const MemberMessage& message) {
  const auto bytes = encode(message);
  SIMM_CHECK(bytes.has_value());
  link_.send(*bytes);
}

// ---- the link ----

void ClusterMember::on_connected(std::uint64_t features) {
  if (state_ == LinkState::expelled) return link_.close("this daemon has been expelled");
  connected_ = true;
  features_ = features;
  connected_ns_ = heard_ns_ = clock_.now_ns();
  enter(LinkState::joining, "");
  send_join();
}

void ClusterMember::send_join() {
  said_ = wish();
  Join join{config_.address,
            config_.port,
            config_.shards,
            wanted_bytes_,
            epoch(),
            draining_,
            events_.load().recovering,
            config_.grace_ms,
            {},
            0};
  if (map_ != nullptr) {
    join.lineage = map_->life().lineage;
    join.map_digest = map_->digest();
  }
  send(join);
}

void ClusterMember::lose_link(std::string reason) {
  connected_ = false;
  if (state_ == LinkState::expelled) return;
  // A refusal stays visible until the next attempt.
  if (state_ == LinkState::refused) return;
  enter(map_ == nullptr ? LinkState::waiting : LinkState::alone, std::move(reason));
}

void ClusterMember::on_closed() {
  lose_link("the connection to the manager has ended");
}

void ClusterMember::on_message(std::span<const std::byte> message) {
  if (!connected_) return;
  auto decoded = decode_manager_message(message);
  if (!decoded) {
    link_.close(decoded.error().context);
    return lose_link(decoded.error().context);
  }
  heard_ns_ = clock_.now_ns();
  std::visit([&](const auto& value) { take(value); }, *decoded);
}

// ---- messages ----

void ClusterMember::take(const Joined& joined) {
  heartbeat_ns_ = joined.heartbeat_ns;
  note_version(joined.cluster_version);
  next_heartbeat_ns_ = clock_.now_ns() + heartbeat_ns_;
  load_due_ns_ = 0;
  refusal_.clear();
  enter(LinkState::joined, "");
  // It may want something else since the Join.
  say_wish();
}

// The managers of a list are asked in turn. What the one that leads has against this daemon must
// not be hidden by others, who only say that they stand by.
void ClusterMember::take(const Refused& refused) {
  const base::TimeNs now_ns = clock_.now_ns();
  if (!refused.stands_by) {
    refusal_ = refused.reason;
    refusal_ns_ = now_ns;
  }
  const bool is_known = !refusal_.empty() && now_ns - refusal_ns_ < kRefusalShownNs;
  enter(refused.final ? LinkState::expelled : LinkState::refused,
        is_known ? refusal_ : refused.reason);
  connected_ = false;
  link_.close(refused.reason);
  if (refused.final) events_.on_expelled(refused.reason);
}

void ClusterMember::take(const HeartbeatAck& ack) {
  note_version(ack.cluster_version);
  if (ack.heartbeat_ns != 0) heartbeat_ns_ = ack.heartbeat_ns;
}

// A manager of version 5 says none, and one of a later version may say more than is known here.
void ClusterMember::note_version(std::uint16_t of_cluster) noexcept {
  cluster_version_ = std::clamp(of_cluster, kHelloVersionMin, kHelloVersionMax);
}

void ClusterMember::take(const MapPush& push) {
  if (push.map->epoch() <= epoch()) return;
  use(push.map);
}

// A delta was lost, or the manager is wrong about what this daemon has: it is told at once.
void ClusterMember::take(const MapDelta& delta) {
  if (delta.epoch <= epoch()) return;
  if (map_ != nullptr) {
    if (auto map = apply(delta, *map_)) return use(std::move(*map));
  }
  wants_map_ = true;
  if (state_ == LinkState::joined) send_heartbeat();
}

void ClusterMember::use(SlotMapPtr map) {
  wants_map_ = false;
  const SlotMapPtr before = std::exchange(map_, std::move(map));
  events_.on_map(map_, before);
  // So that the manager sees at once who has it.
  if (state_ == LinkState::joined) send_heartbeat();
}

void ClusterMember::take(const MapWanted&) {
  if (map_ != nullptr) send(MapReport{map_});
}

void ClusterMember::take(const Question& question) {
  Answer answer = events_.answer(question);
  answer.id = question.id;
  if (answer.text.size() > kAnswerBytesMax) {
    answer.status = Status::no_space;
    answer.text = "the answer has " + std::to_string(answer.text.size()) + " bytes";
  }
  send(answer);
}

void ClusterMember::take(const Answer& answer) {
  events_.on_answer(answer);
}

// ---- time ----

void ClusterMember::send_heartbeat() {
  const base::TimeNs now_ns = clock_.now_ns();
  next_heartbeat_ns_ = now_ns + heartbeat_ns_;
  Heartbeat heartbeat = events_.load();
  if (now_ns < load_due_ns_) {
    heartbeat.load_ms = 0;
    heartbeat.load = {};
  } else {
    load_due_ns_ = now_ns + kLoadIntervalNs;
  }
  heartbeat.sequence = ++sequence_;
  heartbeat.map_epoch = epoch();
  heartbeat.map_digest = map_ == nullptr ? 0 : map_->digest();
  heartbeat.wants_map = wants_map_;
  send(heartbeat);
}

int ClusterMember::do_work() {
  if (!connected_) return 0;
  const base::TimeNs now_ns = clock_.now_ns();
  const bool joined = state_ == LinkState::joined;
  if (now_ns - heard_ns_ >= patience_ns()) {
    const std::string why = "the manager does not answer";
    link_.close(why);
    lose_link(why);
    return 1;
  }
  if (!joined || now_ns < next_heartbeat_ns_) return 0;
  send_heartbeat();
  return 1;
}

base::TimeNs ClusterMember::next_deadline_ns() const {
  if (!connected_) return base::kNoDeadline;
  const base::TimeNs end_ns = heard_ns_ + patience_ns();
  return state_ == LinkState::joined ? std::min(next_heartbeat_ns_, end_ns) : end_ns;
}

// With rare heartbeats a dead manager is noticed after fewer of them. One with many daemons has
// been silent for a pause already when it dies, or is busy for a while.
base::TimeNs ClusterMember::patience_ns() const noexcept {
  if (state_ != LinkState::joined) return config_.join_timeout_ns;
  const base::TimeNs usual_ns = heartbeat_ns_ * config_.heartbeats_missed_max;
  const base::TimeNs pause_ns = heartbeat_ns_ > kHeartbeatNsUsual ? kAnswerPauseNs : 0;
  return std::max(std::min(usual_ns, kPatienceNsMax), heartbeat_ns_ * kHeartbeatsMissedMin) +
         pause_ns;
}

void ClusterMember::drain() {
  draining_ = true;
  say_wish();
}

void ClusterMember::want_weight(std::uint64_t weight_bytes) {
  draining_ = weight_bytes == 0;
  if (!draining_) wanted_bytes_ = std::min(weight_bytes, config_.weight_bytes);
  say_wish();
}

// A Join on a connection that has joined says what the member is from now on. Managers of earlier
// releases take it as well.
void ClusterMember::say_wish() {
  if (!connected_ || state_ != LinkState::joined || said_ == wish()) return;
  if (!draining_) return send_join();
  said_ = wish();
  send(Leave{});
}

std::uint64_t ClusterMember::weight_in_map() const noexcept {
  const auto me = map_ == nullptr ? std::nullopt : map_->find(config_.identity.incarnation);
  return me ? map_->members()[*me].weight_bytes : 0;
}

void ClusterMember::report_load() {
  load_due_ns_ = 0;
  if (connected_ && state_ == LinkState::joined) send_heartbeat();
}

bool ClusterMember::owns_nothing() const noexcept {
  return map_ != nullptr && !map_->find(config_.identity.incarnation).has_value();
}

Status ClusterMember::ask(const Question& question) {
  if (!connected_ || state_ != LinkState::joined) return Status::unreachable;
  const auto bytes = encode(MemberMessage(question));
  if (!bytes) return bytes.status();
  link_.send(*bytes);
  return Status::ok;
}

}  // namespace simm::cluster
