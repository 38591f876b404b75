#include "daemon/transport/asker_rosters.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::transport {

// A scan: links begin and end rarely.
const AskerRosters::Asker* AskerRosters::find(std::uint64_t asker) const noexcept {
  const auto found = std::find_if(askers_.begin(), askers_.end(),
                                  [asker](const Asker& one) { return one.newest.asker == asker; });
  return found == askers_.end() ? nullptr : &*found;
}

AskerRosters::Asker* AskerRosters::find(std::uint64_t asker) noexcept {
  // SAFETY: an element of a vector that is not const.
  return const_cast<Asker*>(std::as_const(*this).find(asker));
}

bool AskerRosters::note(const LinkRoster& roster, bool is_first) noexcept {
  Asker* known = find(roster.asker);
  bool forgets = false;
  if (known == nullptr) {
    // Half of them have no link, so there is one to take. Free ones were never noted.
    for (Asker& one : askers_) {
      if (one.links == 0 && (known == nullptr || one.noted < known->noted)) known = &one;
    }
    SIMM_CHECK(known != nullptr);
    forgets = known->newest.asker != 0;
    *known = {};
  }
  if (roster.statement > known->newest.statement) known->newest = roster;
  known->noted = ++notes_;
  if (is_first) ++known->links;
  return !forgets;
}

void AskerRosters::leave(std::uint64_t asker) noexcept {
  Asker* const known = find(asker);
  SIMM_CHECK(known != nullptr && known->links > 0);
  --known->links;
}

bool AskerRosters::leaves_out(std::uint64_t asker, std::uint64_t link) const noexcept {
  const Asker* const known = find(asker);
  SIMM_CHECK(known != nullptr);
  return known->newest.leaves_out(link);
}

}  // namespace simm::transport
