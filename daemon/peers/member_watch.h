// MemberWatch: tells a manager's events what becomes of the daemons of its cluster: who joined, is
// away, is back, drains or is gone; whom others can not reach, although the manager hears both
// sides; and whether the manager itself is cut off or can not store its map. It looks at the
// members every kLookNs, so what lasts shorter is not told. Its memory is a few words and the name
// of each member, of which there are at most kDaemonsMax.
// Owned by the ManagerService. Thread: control.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/event_log.h"
#include "daemon/cluster/manager.h"

namespace simm::control {

class MemberWatch {
public:
  static constexpr base::TimeNs kLookNs = 250 * base::kNsPerMs;
  // Connections are made anew within a moment; a path that is broken for so long is told.
  static constexpr base::TimeNs kBrokenNs = base::kNsPerSecond;

  MemberWatch(const base::Clock& clock, base::EventLog& events) : clock_(clock), events_(events) {}

  void look(const cluster::Manager& manager);
  // Another manager leads: what comes next is news.
  void forget() { seen_.clear(); }

private:
  struct Seen {
    cluster::Incarnation incarnation;
    cluster::MemberState state = cluster::MemberState::live;
    bool is_there = false;          // in this look
    base::TimeNs unreached_ns = 0;  // since when others can not reach it; 0: they can
    bool is_broken = false;         // and that was told
  };

  void look_at(const std::string& name, const cluster::KnownMember& member);
  void look_at_paths(const std::string& name, Seen& seen, std::uint32_t unreached_by,
                     std::uint32_t tellers);
  void look_at_manager(const cluster::Manager& manager);

  const base::Clock& clock_;
  base::EventLog& events_;
  std::map<std::string, Seen> seen_;
  bool is_cut_off_ = false;
  bool fails_to_store_ = false;
};

}  // namespace simm::control
