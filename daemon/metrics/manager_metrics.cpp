#include "daemon/metrics/manager_metrics.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace simm::control {
namespace {

using cluster::KnownMember;
using cluster::MemberState;

constexpr std::array<MemberState, 4> kStates = {MemberState::live, MemberState::away,
                                                MemberState::draining, MemberState::gone};

}  // namespace

std::string ManagerMetrics::not_ready() const {
  const std::string& why = service_.manager().store_error();
  return why.empty() ? std::string() : "the map can not be stored: " + why;
}

void ManagerMetrics::write_metrics(MetricsText& text) {
  const cluster::Manager& manager = service_.manager();
  const cluster::SlotMapPtr& map = manager.map();
  text.gauge("simm_cluster_epoch", map == nullptr ? 0 : map->epoch(),
             "Epoch of the newest map that is known here.");
  text.gauge("simm_cluster_owners", map == nullptr ? 0 : map->members().size(),
             "Daemons that own slots of the newest map.");
  text.gauge("simm_manager_leads", service_.leads() ? 1 : 0,
             "1: this manager keeps the map; 0: it stands by for another one.");
  text.gauge("simm_manager_connections", manager.connections(),
             "Connections of daemons to the manager.");
  text.gauge("simm_manager_retired_incarnations", manager.membership().retired().size(),
             "Former lives of daemons that may not come back.");
  text.gauge("simm_manager_cut_off", manager.membership().is_cut_off() ? 1 : 0,
             "1: too few daemons are heard to declare anybody gone, so no slots move.");
  text.gauge("simm_manager_store_failing", manager.store_error().empty() ? 0 : 1,
             "1: the newest map can not be stored, so nobody gets it.");
  write_members(text);
}

void ManagerMetrics::write_members(MetricsText& text) const {
  const cluster::Manager& manager = service_.manager();
  const cluster::SlotMap* const map = manager.map().get();
  std::map<std::pair<std::string, MemberState>, std::uint64_t> counts;
  std::vector<std::pair<std::string, const KnownMember*>> shown;
  for (const auto& [name, member] : manager.membership().members()) {
    const std::string role(role_name(member.identity.role));
    for (const MemberState state : kStates) counts[{role, state}] += state == member.state ? 1 : 0;
    if (shown.size() < kMembersShown) shown.emplace_back(label_text({{"member", name}}), &member);
  }
  text.family("simm_manager_members", MetricType::gauge, "Daemons that the manager knows.");
  for (const auto& [key, count] : counts) {
    text.sample({{"role", key.first}, {"state", member_state_name(key.second)}}, count);
  }
  text.gauge("simm_manager_members_not_shown", manager.membership().members().size() - shown.size(),
             "Members without metrics of their own, beyond the first 256 by name.");
  const auto each = [&](std::string_view name, std::string_view help, auto value) {
    text.family(name, MetricType::gauge, help);
    for (const auto& [labels, member] : shown) text.sample(labels, value(*member));
  };
  each("simm_member_live", "1: the manager hears this member.", [](const KnownMember& member) {
    return std::uint64_t{member.state == MemberState::live ? 1U : 0U};
  });
  each("simm_member_slots", "Slots of the newest map that this member owns.",
       [map](const KnownMember& member) {
         const auto at = map == nullptr ? std::nullopt : map->find(member.identity.incarnation);
         return std::uint64_t{at ? map->slot_count(*at) : 0U};
       });
  each("simm_member_map_epoch", "Epoch of the map that this member uses, as it said last.",
       [](const KnownMember& member) { return std::uint64_t{member.last.map_epoch}; });
  each("simm_member_objects", "Objects that this member holds, as it said last.",
       [](const KnownMember& member) { return member.last.objects; });
  each("simm_member_used_bytes", "Memory in use by objects of this member, as it said last.",
       [](const KnownMember& member) { return member.last.used_bytes; });
  each("simm_member_capacity_bytes", "Memory for objects of this member.",
       [](const KnownMember& member) { return member.joined.weight_bytes; });
  const base::TimeNs now_ns = clock_.now_ns();
  each("simm_member_heard_age_seconds", "How long ago this member was heard the last time.",
       [now_ns](const KnownMember& member) {
         const base::TimeNs heard_ns = std::min(member.heard_ns, now_ns);
         return static_cast<double>(now_ns - heard_ns) / kNsInSecond;
       });
}

}  // namespace simm::control
