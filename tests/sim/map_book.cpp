#include "tests/sim/map_book.h"

#include <algorithm>
#include <iterator>

#include "daemon/cluster/cluster_codec.h"

namespace simm::sim {
namespace {

unsigned long long printable(std::uint64_t value) {
  return value;
}

bool same_owner(const cluster::SlotMap& a, const cluster::SlotMap& b, base::Slot slot) {
  const cluster::MapMember* before = a.owner_of(slot);
  const cluster::MapMember* now = b.owner_of(slot);
  return before != nullptr && now != nullptr &&
         before->identity.incarnation == now->identity.incarnation;
}

}  // namespace

void MapBook::on_stored(const cluster::StoredState& state) {
  const auto decoded = cluster::decode_manager_state(state.bytes);
  if (!decoded || decoded->map->epoch() != state.epoch) {
    return report_.violation("P7", "a manager stored no state of epoch %llu",
                             printable(state.epoch));
  }
  if (state.epoch <= newest()) {
    return report_.violation("P7", "epoch %llu is stored after epoch %llu", printable(state.epoch),
                             printable(newest()));
  }
  if (!decoded->map->life().lineage.is_set() ||
      (!pages_.empty() && !(pages_.rbegin()->second.map->life() == decoded->map->life()))) {
    return report_.violation("P7", "map %llu is of another lineage", printable(state.epoch));
  }
  Page page{decoded->map, std::vector<base::Epoch>(base::kSlotCount)};
  const Page* last = pages_.empty() ? nullptr : &pages_.rbegin()->second;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    if (page.map->owner_of(slot) == nullptr) continue;
    const bool goes_on = last != nullptr && same_owner(*last->map, *page.map, slot);
    page.tenures[i] = goes_on ? last->tenures[i] : state.epoch;
  }
  check_tenures(page);
  if (last != nullptr) {
    check_incarnations(*last->map, *page.map);
    check_departures(*last->map, *page.map);
  }
  pages_.emplace(state.epoch, std::move(page));
}

// A map may claim less than is true only where nobody can have stored anything in between.
void MapBook::check_tenures(Page& page) {
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const base::Epoch claimed = page.map->since(static_cast<base::Slot>(i));
    base::Epoch& true_since = page.tenures[i];
    if (claimed == true_since) continue;
    const auto used = used_.lower_bound(true_since);
    const bool early = claimed < true_since;
    if (early || (used != used_.end() && *used < claimed)) {
      return report_.violation(
          early ? "P7" : "P8", "map %llu: slot %u is owned since %llu, not since %llu",
          printable(page.map->epoch()), i, printable(true_since), printable(claimed));
    }
    true_since = claimed;
  }
}

void MapBook::check_departures(const cluster::SlotMap& before, const cluster::SlotMap& now) {
  for (const cluster::MapMember& member : before.members()) {
    const cluster::Incarnation& incarnation = member.identity.incarnation;
    const bool replaced =
        std::any_of(now.members().begin(), now.members().end(),
                    [&](const auto& other) { return other.identity.name == member.identity.name; });
    if (now.find(incarnation)) continue;
    if (may_lose_slots(static_cast<Serial>(incarnation.low), replaced)) continue;
    return report_.violation("P8", "map %llu: server %llu loses its place without a cause",
                             printable(now.epoch()), printable(incarnation.low));
  }
}

void MapBook::check_incarnations(const cluster::SlotMap& before, const cluster::SlotMap& now) {
  for (const cluster::MapMember& member : now.members()) {
    if (replaced_.count(member.identity.incarnation) > 0) {
      return report_.violation("P7", "map %llu: server %llu was replaced before",
                               printable(now.epoch()), printable(member.identity.incarnation.low));
    }
    for (const cluster::MapMember& former : before.members()) {
      const bool same_name = former.identity.name == member.identity.name;
      if (same_name && !(former.identity == member.identity)) {
        replaced_.insert(former.identity.incarnation);
      }
    }
  }
}

void MapBook::on_used(const cluster::SlotMap& map) {
  const auto found = pages_.find(map.epoch());
  if (found == pages_.end() || !found->second.map->routes_as(map)) {
    report_.violation("P7", "a daemon uses a map of epoch %llu that was never stored",
                      printable(map.epoch()));
  }
  used_.insert(map.epoch());
}

std::string MapBook::describe_newest() const {
  if (pages_.empty()) return "none";
  const cluster::SlotMap& map = *pages_.rbegin()->second.map;
  std::string text = std::to_string(map.epoch()) + ":";
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    text += " server " + std::to_string(map.members()[i].identity.incarnation.low) + " has " +
            std::to_string(map.slot_count(static_cast<cluster::MemberIndex>(i)));
  }
  return text;
}

Serial MapBook::owner(base::Epoch epoch, base::Slot slot) const {
  const auto found = pages_.find(epoch);
  if (found == pages_.end()) return 0;
  const cluster::MapMember* owner = found->second.map->owner_of(slot);
  return owner == nullptr ? 0 : static_cast<Serial>(owner->identity.incarnation.low);
}

Serial MapBook::owner_before(base::Epoch epoch, base::Slot slot) const {
  const auto found = pages_.find(epoch);
  if (found == pages_.end() || found == pages_.begin()) return 0;
  return owner(std::prev(found)->first, slot);
}

bool MapBook::is_refilled_since(base::Epoch epoch, base::Slot slot) const {
  const auto found = pages_.find(epoch);
  return found != pages_.end() && found->second.map->refilled_since(slot) == epoch;
}

bool MapBook::has_owned_behind(base::Epoch epoch, base::Slot slot, Serial serial) const {
  return std::any_of(pages_.upper_bound(epoch), pages_.end(), [&](const auto& page) {
    const cluster::MapMember* const owner = page.second.map->owner_of(slot);
    return owner != nullptr && owner->identity.incarnation.low == serial;
  });
}

bool MapBook::is_in_since(base::Epoch epoch, Serial serial) const {
  return std::any_of(pages_.upper_bound(epoch), pages_.end(), [serial](const auto& page) {
    const std::vector<cluster::MapMember>& members = page.second.map->members();
    return std::any_of(members.begin(), members.end(), [serial](const auto& member) {
      return member.identity.incarnation.low == serial;
    });
  });
}

base::Epoch MapBook::tenure(base::Epoch epoch, base::Slot slot) const {
  const auto found = pages_.find(epoch);
  return found == pages_.end() ? 0 : found->second.tenures[slot];
}

}  // namespace simm::sim
