// What a manager tells about itself and its cluster.
#include <iterator>
#include <nlohmann/json.hpp>

#include "daemon/base/json_text.h"
#include "daemon/cluster/manager.h"

namespace simm::cluster {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t ms_since(base::TimeNs since_ns, base::TimeNs now_ns) {
  return since_ns == 0 || since_ns > now_ns ? 0 : (now_ns - since_ns) / base::kNsPerMs;
}

Json describe(const KnownMember& member, const SlotMap* map, const Unreached& unreached,
              base::TimeNs now_ns) {
  std::uint64_t slots = 0;
  std::uint64_t unreached_by = 0;
  if (map != nullptr) {
    if (const auto index = map->find(member.identity.incarnation)) {
      slots = map->slot_count(*index);
      unreached_by = unreached.by[*index];
    }
  }
  Json out;
  out["name"] = member.identity.name;
  out["role"] = role_name(member.identity.role);
  const bool recovers = member.state == MemberState::live && member.last.recovering;
  out["state"] = recovers ? "recovering" : member_state_name(shown_state(member));
  out["incarnation"] = member.identity.incarnation.text();
  if (member.version == 0) {
    out["protocol"] = nullptr;  // known from a map only
  } else {
    out["protocol"] = member.version;
  }
  out["address"] = member.joined.address;
  out["port"] = member.joined.port;
  out["shards"] = member.joined.shards;
  out["weight_bytes"] = member.joined.weight_bytes;
  out["slots"] = slots;
  out["map_epoch"] = member.last.map_epoch;
  out["objects"] = member.last.objects;
  out["used_bytes"] = member.last.used_bytes;
  out["connected"] = member.connection != 0;
  out["unreached_by"] = unreached_by;
  out["heard_ms"] = ms_since(member.heard_ns, now_ns);
  if (member.state == MemberState::away) out["away_ms"] = ms_since(member.away_ns, now_ns);
  return out;
}

// What rates are made of: two such moments. The counters are those of a daemon with one agent,
// which has done it all; zeros are left out. Null: the daemon is of an older release.
Json describe_load(const Heartbeat& last) {
  if (last.load_ms == 0) return nullptr;
  Json out;
  out["taken_ms"] = last.load_ms;
  Json& counters = out["counters"] = Json::object();
  const auto tell = [&counters](std::string_view section, std::string_view name,
                                std::uint64_t sum) {
    if (sum != 0) counters[std::string(section) + ".0." + std::string(name)] = sum;
  };
  for (const base::LoadField& field : base::kLoadFields) {
    tell(field.section, field.name, last.load.*field.sum);
  }
  for (std::size_t i = 0; i < base::Load::kBuckets; ++i) {
    tell("engine", std::string(base::kBatchBucket) + std::to_string(i), last.load.batch_ns[i]);
  }
  return out;
}

// How many slots each member has, and since when nothing has moved to it.
Json describe_slots(const SlotMap& map) {
  Json members = Json::array();
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    const auto index = static_cast<MemberIndex>(i);
    const std::uint32_t slots = map.slot_count(index);
    Json out;
    out["name"] = full_name(map.members()[i].identity);
    out["incarnation"] = map.members()[i].identity.incarnation.text();
    out["slots"] = slots;
    out["percent"] = 100.0 * slots / base::kSlotCount;
    base::Epoch newest = 0;
    for (const SlotOwner& owner : map.owners()) {
      if (owner.member == index) newest = std::max(newest, owner.since);
    }
    out["unchanged_since_epoch"] = newest;
    members.push_back(std::move(out));
  }
  return members;
}

}  // namespace

// In the order of their names, as many as one answer has room for.
std::string Manager::nodes_report(const std::string& page, std::string head) const {
  const std::size_t count_max = page.empty() ? kDaemonsMax : kNodesPageMax;
  const std::string after = page.empty() ? page : page.substr(1);
  const bool with_load = page.starts_with('=');
  const Unreached unreached = map_ == nullptr ? Unreached() : membership_.unreached(*map_);
  std::string nodes;
  std::string next;
  std::size_t count = 0;
  const auto& members = membership_.members();
  for (auto at = members.upper_bound(after); at != members.end(); ++at) {
    Json described = describe(at->second, map_.get(), unreached, clock_.now_ns());
    if (with_load) described["load"] = describe_load(at->second.last);
    const std::string node = base::json_text(described);
    if (count == count_max || nodes.size() + node.size() > kNodesPageBytesMax) {
      next = std::prev(at)->first;
      break;
    }
    if (count++ > 0) nodes += ',';
    nodes += node;
  }
  if (!next.empty()) head += ",\"next\":" + base::json_text(Json(next));
  return "{" + head + ",\"nodes\":[" + nodes + "]}";
}

Json Manager::head() const {
  Json out;
  out["epoch"] = epoch();
  out["lineage"] = lineage_.is_set() ? lineage_.text() : "unknown";
  out["common_protocol"] = membership_.version();
  return out;
}

std::string Manager::report(Topic topic, const std::string& page) const {
  if (topic != Topic::slots && topic != Topic::nodes) return base::json_text(numbers());
  Json out = head();
  if (topic == Topic::slots) {
    out["slots"] = base::kSlotCount;
    out["members"] = map_ == nullptr ? Json::array() : describe_slots(*map_);
    return base::json_text(out);
  }
  const std::string head = base::json_text(out);
  return nodes_report(page, head.substr(1, head.size() - 2));  // without its braces
}

Json Manager::numbers() const {
  Json out = head();
  out["connections"] = connections_.size();
  out["daemons"] = membership_.members().size();
  out["owners"] = map_ == nullptr ? 0 : map_->members().size();
  out["retired_incarnations"] = membership_.retired().size();
  out["refused_of_another_lineage"] = strangers_refused_;
  out["questions_under_way"] = forwarded_.size();
  out["map_due"] = changed_ns_ != 0;
  out["cut_off"] = membership_.is_cut_off();
  out["store_error"] = store_error_;
  return out;
}

}  // namespace simm::cluster
