// Who may be asked to drain, and by whom: the manager's answer before it passes a drain on.
// Thread: the manager's control thread.
#pragma once

#include <set>
#include <string>

#include "daemon/cluster/membership.h"
#include "simm/expected.h"

namespace simm::cluster {

// The connected daemon of that full name ("storage/a"), or plain name. not_found: there is none;
// invalid_argument: several have the plain name.
Expected<const KnownMember*> find_target(const Membership& membership, const std::string& target);

// `question`: a drain, or the end of one. `asked`: connections that a drain is on its way to. The
// errors are for people.
Outcome may_drain(const Membership& membership, const KnownMember& target, const Question& question,
                  const std::set<ConnectionId>& asked);

}  // namespace simm::cluster
