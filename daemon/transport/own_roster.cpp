#include "daemon/transport/own_roster.h"

#include "daemon/base/random.h"
#include "simm/check.h"

namespace simm::transport {

OwnRoster::OwnRoster(std::uint32_t links_max)
    : seed_(base::SystemRandom().next()), links_(links_max) {}

// The seed is random, so nobody else has the same name.
std::uint64_t OwnRoster::requester_on(Route route) const noexcept {
  const std::uint64_t requester = seed_ ^ (std::uint64_t{route.peer.value} << 16 | route.shard);
  return requester != 0 ? requester : 1;
}

std::uint32_t OwnRoster::open(Route route) noexcept {
  std::uint32_t siblings = 0;
  std::uint32_t found = kNone;
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    if (links_[i].number == 0) {
      if (found == kNone) found = i;
    } else if (links_[i].route == route) {
      ++siblings;
    }
  }
  if (found == kNone || siblings >= wire::kRosterLinksMax) return kNone;
  links_[found] = {++last_number_, route, true};
  return found;
}

// What its requesters ask for from now on must not be overtaken by what it still carries.
void OwnRoster::close(std::uint32_t link) noexcept {
  SIMM_CHECK(links_[link].number != 0);
  links_[link].number = 0;
  for (Link& one : links_) {
    if (one.number != 0 && one.route == links_[link].route) one.owes = true;
  }
}

LinkRoster OwnRoster::say(std::uint32_t link) noexcept {
  Link& said = links_[link];
  SIMM_CHECK(said.number != 0);
  said.owes = false;
  LinkRoster roster;
  roster.requester = requester_on(said.route);
  roster.statement = ++last_number_;
  roster.link = said.number;
  for (const Link& one : links_) {
    if (one.number == 0 || one.route != said.route) continue;
    SIMM_CHECK(roster.count < roster.links.size());
    roster.links[roster.count++] = one.number;
  }
  return roster;
}

}  // namespace simm::transport
