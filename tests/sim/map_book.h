// MapBook: every slot map that managers of a run have stored, and what follows from their row,
// found without any help of the code under test: who owned a slot when, and without a break since
// when (its tenure). Checks what maps have to keep:
//
//  P7  an epoch names one map for ever, epochs only grow, and all maps are of one lineage; no
//  tenure begins later than its map
//      claims; an incarnation whose slots another one of its name has taken over never comes back;
//      nobody uses a map that was not stored
//  P8  no tenure is broken off, and no member loses its place, without a cause
// Thread: the one simulated thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/cluster/coordinator.h"
#include "daemon/cluster/slot_map.h"
#include "tests/sim/report.h"

namespace simm::sim {

// The process of an incarnation: its low half, in the simulation. Never used twice; 0: nobody.
using Serial = std::uint32_t;

class MapBook {
public:
  explicit MapBook(Report& report) : report_(report) {}

  // Whether that process has given reason to take its slots away: for ever, or for another process
  // of its name.
  std::function<bool(Serial, bool replaced)> may_lose_slots = [](Serial, bool) { return true; };

  // A manager's disk has it.
  void on_stored(const cluster::StoredState& state);
  // A daemon uses it from now on.
  void on_used(const cluster::SlotMap& map);

  [[nodiscard]] base::Epoch newest() const { return pages_.empty() ? 0 : pages_.rbegin()->first; }
  // For people: its epoch, and who owns how many slots.
  [[nodiscard]] std::string describe_newest() const;
  // Who owns the slot in the map of that epoch; 0: nobody, or there is no such map.
  [[nodiscard]] Serial owner(base::Epoch epoch, base::Slot slot) const;
  // Who owned the slot in the map before that one.
  // Whether the owner of the slot is given second copies since that map (SlotMap::refilled_since).
  [[nodiscard]] bool is_refilled_since(base::Epoch epoch, base::Slot slot) const;
  // Whether that server owned the slot under some later map.
  [[nodiscard]] bool has_owned_behind(base::Epoch epoch, base::Slot slot, Serial serial) const;
  [[nodiscard]] Serial owner_before(base::Epoch epoch, base::Slot slot) const;
  // That process is a member of a map that came after the one of that epoch.
  [[nodiscard]] bool is_in_since(base::Epoch epoch, Serial serial) const;
  // The epoch since which that owner has owned it without a break; 0 as above.
  [[nodiscard]] base::Epoch tenure(base::Epoch epoch, base::Slot slot) const;

private:
  struct Page {
    cluster::SlotMapPtr map;
    std::vector<base::Epoch> tenures;  // by slot
  };

  void check_tenures(Page& page);
  void check_departures(const cluster::SlotMap& before, const cluster::SlotMap& now);
  void check_incarnations(const cluster::SlotMap& before, const cluster::SlotMap& now);

  Report& report_;
  std::map<base::Epoch, Page> pages_;
  std::set<base::Epoch> used_;
  std::set<cluster::Incarnation> replaced_;
};

}  // namespace simm::sim
