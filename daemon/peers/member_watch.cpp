#include "daemon/peers/member_watch.h"

namespace simm::control {

using base::EventKind;
using cluster::MemberState;

void MemberWatch::look(const cluster::Manager& manager) {
  for (auto& [name, seen] : seen_) seen.is_there = false;
  for (const auto& [name, member] : manager.membership().members()) look_at(name, member);
  const cluster::SlotMap* const map = manager.map().get();
  const cluster::Unreached unreached =
      map == nullptr ? cluster::Unreached() : manager.membership().unreached(*map);
  for (auto at = seen_.begin(); at != seen_.end();) {
    const auto looked_at = at++;
    Seen& seen = looked_at->second;
    if (!seen.is_there) {
      if (seen.state != MemberState::gone) {
        events_.tell(EventKind::member_gone, {{"daemon", looked_at->first}});
      }
      seen_.erase(looked_at);
      continue;
    }
    const auto index = map == nullptr ? std::nullopt : map->find(seen.incarnation);
    look_at_paths(looked_at->first, seen, index ? unreached.by[*index] : 0, unreached.tellers);
  }
  look_at_manager(manager);
}

void MemberWatch::look_at(const std::string& name, const cluster::KnownMember& member) {
  const auto [found, is_new] = seen_.try_emplace(name);
  Seen& seen = found->second;
  const Seen before = seen;
  const bool is_another = is_new || before.incarnation != member.identity.incarnation;
  seen.incarnation = member.identity.incarnation;
  seen.state = cluster::shown_state(member);
  seen.is_there = true;
  if (!is_another && before.state == seen.state) return;
  const std::string life = member.identity.incarnation.text();
  switch (seen.state) {
    case MemberState::live:
      return events_.tell(is_another ? EventKind::member_joined : EventKind::member_returned,
                          {{"daemon", name}, {"incarnation", life}});
    case MemberState::away:
      return events_.tell(EventKind::member_away, {{"daemon", name}, {"incarnation", life}});
    case MemberState::draining:
      return events_.tell(EventKind::member_draining, {{"daemon", name}, {"incarnation", life}});
    case MemberState::gone:
      return events_.tell(EventKind::member_gone, {{"daemon", name}, {"incarnation", life}});
  }
}

// Of one that the manager does not hear, the others tell nothing new.
void MemberWatch::look_at_paths(const std::string& name, Seen& seen, std::uint32_t unreached_by,
                                std::uint32_t tellers) {
  const base::TimeNs now_ns = clock_.now_ns();
  if (seen.state == MemberState::away || seen.state == MemberState::gone) unreached_by = 0;
  if (unreached_by == 0) {
    seen.unreached_ns = 0;
    if (seen.is_broken) events_.tell(EventKind::paths_back, {{"daemon", name}});
    seen.is_broken = false;
    return;
  }
  if (seen.unreached_ns == 0) seen.unreached_ns = now_ns;
  if (seen.is_broken || now_ns - seen.unreached_ns < kBrokenNs) return;
  seen.is_broken = true;
  events_.tell(EventKind::paths_broken,
               {{"daemon", name}, {"unreached_by", unreached_by}, {"of", tellers}});
}

void MemberWatch::look_at_manager(const cluster::Manager& manager) {
  const bool is_cut_off = manager.membership().is_cut_off();
  if (is_cut_off != is_cut_off_) {
    events_.tell(is_cut_off ? EventKind::cut_off : EventKind::heard_again,
                 {{"manager", "this one"}, {"members", manager.membership().members().size()}});
  }
  is_cut_off_ = is_cut_off;
  const bool fails = !manager.store_error().empty();
  if (fails && !fails_to_store_) {
    events_.tell(EventKind::map_not_stored,
                 {{"epoch", manager.map() == nullptr ? 0 : manager.map()->epoch()},
                  {"why", manager.store_error()}});
  }
  fails_to_store_ = fails;
}

}  // namespace simm::control
