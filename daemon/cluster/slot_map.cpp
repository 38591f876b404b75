#include "daemon/cluster/slot_map.h"

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/base/limits.h"
#include "daemon/cluster/hello/hello.h"

namespace simm::cluster {
namespace {

Error bad(std::string what) {
  return Error{Status::invalid_argument, "slot map: " + std::move(what)};
}

bool is_address(const std::string& text) {
  return !text.empty() && text.size() <= kAddressBytesMax && is_printable(text);
}

}  // namespace

std::string full_name(const DaemonIdentity& identity) {
  return std::string(role_name(identity.role)) + "/" + identity.name;
}

bool is_printable(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

Outcome check_member(const MapMember& member) {
  const DaemonIdentity& identity = member.identity;
  if (!is_cluster_name(identity.name)) return bad("the name of a member");
  const std::string name = full_name(identity);
  if (!identity.incarnation.is_set()) return bad(name + " has no incarnation");
  if (identity.role != ClusterRole::storage && identity.role != ClusterRole::node) {
    return bad(name + " can not own slots");
  }
  if (!is_address(member.address)) return bad("the address of " + name);
  if (member.port == 0) return bad("the port of " + name);
  if (member.shards == 0 || member.shards > base::kDataAgentsMax) {
    return bad(name + " has " + std::to_string(member.shards) + " shards");
  }
  if (member.weight_bytes == 0 || member.weight_bytes > kWeightBytesMax) {
    return bad(name + " weighs " + std::to_string(member.weight_bytes) + " bytes");
  }
  return Done{};
}

Outcome check_members(const std::vector<MapMember>& members) {
  if (members.size() > kMembersMax) return bad(std::to_string(members.size()) + " members");
  std::set<std::string> names;
  std::set<Incarnation> incarnations;
  for (const MapMember& member : members) {
    if (Outcome checked = check_member(member); !checked) return std::move(checked).error();
    const std::string name = full_name(member.identity);
    if (!names.insert(name).second) return bad("two members are called " + name);
    if (!incarnations.insert(member.identity.incarnation).second) {
      return bad("two members are " + member.identity.incarnation.text());
    }
  }
  return Done{};
}

Expected<SlotMapPtr> SlotMap::make(base::Epoch epoch, std::vector<MapMember> members,
                                   std::vector<SlotOwner> owners) {
  if (epoch == 0 || epoch > kEpochMax) return bad("epoch " + std::to_string(epoch));
  if (Outcome checked = check_members(members); !checked) return std::move(checked).error();
  if (owners.size() != base::kSlotCount) return bad(std::to_string(owners.size()) + " slots");
  for (const SlotOwner& owner : owners) {
    const bool owned = owner.member != kNoMember;
    if (owned != !members.empty()) return bad("a slot without an owner beside members");
    if (owned && owner.member >= members.size()) {
      return bad("a slot of member " + std::to_string(owner.member));
    }
    if (owned ? owner.since == 0 || owner.since > epoch : owner.since != 0) {
      return bad("a slot owned since epoch " + std::to_string(owner.since));
    }
  }
  return SlotMapPtr(new SlotMap(epoch, std::move(members), std::move(owners)));
}

SlotMap::SlotMap(base::Epoch epoch, std::vector<MapMember> members, std::vector<SlotOwner> owners)
    : epoch_(epoch),
      members_(std::move(members)),
      owners_(std::move(owners)),
      slot_counts_(members_.size()) {
  for (const SlotOwner& owner : owners_) {
    if (owner.member != kNoMember) ++slot_counts_[owner.member];
  }
}

std::optional<MemberIndex> SlotMap::find(const Incarnation& incarnation) const noexcept {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].identity.incarnation == incarnation) return static_cast<MemberIndex>(i);
  }
  return std::nullopt;
}

}  // namespace simm::cluster
