#include "daemon/cluster/slot_map.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "daemon/base/hash.h"
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

void append(std::string& bytes, std::span<const std::uint64_t> words) {
  static_assert(std::endian::native == std::endian::little);
  bytes.append(reinterpret_cast<const char*>(words.data()), words.size_bytes());
}

void append(std::string& bytes, std::uint64_t value) {
  append(bytes, std::span(&value, 1));
}

void append(std::string& bytes, const std::string& text) {
  append(bytes, text.size());
  bytes += text;
}

// Other releases have to come to the same: fields that maps get later stay out of it.
std::uint64_t digest_of(base::Epoch epoch, const std::vector<MapMember>& members,
                        const std::vector<SlotOwner>& owners) {
  std::string bytes;
  append(bytes, epoch);
  append(bytes, members.size());
  for (const MapMember& member : members) {
    append(bytes, full_name(member.identity));
    append(bytes, member.identity.incarnation.high);
    append(bytes, member.identity.incarnation.low);
    append(bytes, member.address);
    append(bytes, member.port);
    append(bytes, member.shards);
    append(bytes, member.weight_bytes);
  }
  std::vector<std::uint64_t> words;
  words.reserve(2 * owners.size());
  for (const SlotOwner& owner : owners) {
    words.push_back(owner.member);
    words.push_back(owner.since);
  }
  append(bytes, words);
  const std::uint64_t digest = base::payload_digest(bytes.data(), bytes.size());
  return digest != 0 ? digest : 1;
}

Outcome check_life(const MapLife& life) {
  if (life.ancestors.size() > kAncestorsMax) {
    return bad(std::to_string(life.ancestors.size()) + " ancestors");
  }
  for (const Ancestor& ancestor : life.ancestors) {
    const bool is_sane = life.lineage.is_set() && ancestor.lineage.is_set() &&
                         ancestor.lineage != life.lineage && ancestor.epoch != 0;
    if (!is_sane) return bad("an ancestor that is none");
  }
  return Done{};
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
                                   std::vector<SlotOwner> owners, MapLife life,
                                   std::uint64_t follows) {
  if (epoch == 0 || epoch > kEpochMax) return bad("epoch " + std::to_string(epoch));
  if (Outcome checked = check_members(members); !checked) return std::move(checked).error();
  if (Outcome checked = check_life(life); !checked) return std::move(checked).error();
  for (const MapMember& member : members) {
    if (member.back_since <= epoch) continue;
    return bad(full_name(member.identity) + " is back since epoch " +
               std::to_string(member.back_since));
  }
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
  return SlotMapPtr(
      new SlotMap(epoch, std::move(members), std::move(owners), std::move(life), follows));
}

SlotMap::SlotMap(base::Epoch epoch, std::vector<MapMember> members, std::vector<SlotOwner> owners,
                 MapLife life, std::uint64_t follows)
    : epoch_(epoch),
      life_(std::move(life)),
      digest_(digest_of(epoch, members, owners)),
      follows_(follows),
      members_(std::move(members)),
      owners_(std::move(owners)),
      slot_counts_(members_.size()),
      by_incarnation_(members_.size()) {
  std::iota(by_incarnation_.begin(), by_incarnation_.end(), MemberIndex{0});
  std::sort(by_incarnation_.begin(), by_incarnation_.end(), [this](auto a, auto b) {
    return members_[a].identity.incarnation < members_[b].identity.incarnation;
  });
  for (const SlotOwner& owner : owners_) {
    if (owner.member != kNoMember) ++slot_counts_[owner.member];
  }
}

bool SlotMap::is_of_another_life(const Lineage& lineage, base::Epoch epoch) const noexcept {
  if (!lineage.is_set() || !life_.lineage.is_set() || lineage == life_.lineage) return false;
  return std::none_of(life_.ancestors.begin(), life_.ancestors.end(), [&](const Ancestor& former) {
    return former.lineage == lineage && epoch <= former.epoch;
  });
}

std::optional<MemberIndex> SlotMap::find(const Incarnation& incarnation) const noexcept {
  const auto found = std::lower_bound(by_incarnation_.begin(), by_incarnation_.end(), incarnation,
                                      [this](MemberIndex at, const auto& sought) {
                                        return members_[at].identity.incarnation < sought;
                                      });
  const bool is_there =
      found != by_incarnation_.end() && members_[*found].identity.incarnation == incarnation;
  return is_there ? std::optional(*found) : std::nullopt;
}

}  // namespace simm::cluster
