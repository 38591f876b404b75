#include "daemon/transport/requester_rosters.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::transport {

// A scan: links begin and end rarely.
const RequesterRosters::Known* RequesterRosters::find(std::uint64_t requester) const noexcept {
  const auto found =
      std::find_if(requesters_.begin(), requesters_.end(),
                   [requester](const Known& one) { return one.newest.requester == requester; });
  return found == requesters_.end() ? nullptr : &*found;
}

RequesterRosters::Known* RequesterRosters::find(std::uint64_t requester) noexcept {
  // SAFETY: an element of a vector that is not const.
  return const_cast<Known*>(std::as_const(*this).find(requester));
}

bool RequesterRosters::note(const LinkRoster& roster, bool is_first) noexcept {
  Known* known = find(roster.requester);
  bool forgets = false;
  if (known == nullptr) {
    // Half of them have no link, so there is one to take. Free ones were never noted.
    for (Known& one : requesters_) {
      if (one.links == 0 && (known == nullptr || one.noted < known->noted)) known = &one;
    }
    SIMM_CHECK(known != nullptr);
    forgets = known->newest.requester != 0;
    *known = {};
  }
  if (roster.statement > known->newest.statement) known->newest = roster;
  known->noted = ++notes_;
  if (is_first) ++known->links;
  return !forgets;
}

bool RequesterRosters::is_superseded(LinkOwner owner) const noexcept {
  return owner.life != 0 && owner.life < lives_[owner.daemon];
}

void RequesterRosters::leave(std::uint64_t requester) noexcept {
  Known* const known = find(requester);
  SIMM_CHECK(known != nullptr && known->links > 0);
  --known->links;
}

bool RequesterRosters::leaves_out(std::uint64_t requester, std::uint64_t link) const noexcept {
  const Known* const known = find(requester);
  SIMM_CHECK(known != nullptr);
  return known->newest.leaves_out(link);
}

}  // namespace simm::transport
