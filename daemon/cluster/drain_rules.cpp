#include "daemon/cluster/drain_rules.h"

#include <algorithm>

namespace simm::cluster {
namespace {

// Slots could go there.
bool may_take_slots(const KnownMember& member, const std::set<ConnectionId>& asked) {
  return member.state == MemberState::live && member.owns_slots() && !member.owns_later &&
         !member.last.draining && !asked.contains(member.connection);
}

// It hands slots over at this moment. Its last step is not seen here: it has left the map then.
bool hands_over(const KnownMember& member, const std::set<ConnectionId>& asked) {
  const bool is_asked = member.connection != 0 && asked.contains(member.connection);
  return member.state == MemberState::live && (member.last.draining || is_asked);
}

}  // namespace

Expected<const KnownMember*> find_target(const Membership& membership, const std::string& target) {
  const KnownMember* found = nullptr;
  for (const auto& [name, member] : membership.members()) {
    if (member.connection == 0) continue;
    if (name == target) return &member;
    if (member.identity.name != target) continue;
    if (found != nullptr) {
      return Error{Status::invalid_argument, "several daemons are called '" + target + "': write " +
                                                 full_name(found->identity) + " or " + name};
    }
    found = &member;
  }
  if (found == nullptr) {
    return Error{Status::not_found, "no daemon '" + target +
                                        "' is connected to the manager; `simmctl nodes` lists "
                                        "those that are"};
  }
  return found;
}

Outcome may_drain(const Membership& membership, const KnownMember& target, const Question& question,
                  const std::set<ConnectionId>& asked) {
  const std::string name = full_name(target.identity);
  if (!target.owns_slots()) {
    return Error{Status::invalid_argument,
                 name + " has no pool and so no slots: there is nothing to drain"};
  }
  if (question.topic == Topic::cancel_drain) return Done{};
  const auto& members = membership.members();
  for (const auto& [other, member] : members) {
    if (question.is_forced || &member == &target || !hands_over(member, asked)) continue;
    return Error{Status::invalid_state,
                 other +
                     " drains: what moves from one of both to the other, and on from there before "
                     "it has come, is lost. Wait for the end (simmctl moves " +
                     other + "), or drain both at once all the same (--force)"};
  }
  if (question.is_named) return Done{};
  const bool has_heir = std::any_of(members.begin(), members.end(), [&](const auto& entry) {
    return &entry.second != &target && may_take_slots(entry.second, asked);
  });
  if (has_heir) return Done{};
  return Error{Status::invalid_argument,
               name +
                   " is the last daemon that can own slots: nobody could take its objects, and "
                   "all of them would be lost. Start another storage daemon first, or name "
                   "this one (simmctl drain " +
                   name + ") if they may be lost"};
}

}  // namespace simm::cluster
