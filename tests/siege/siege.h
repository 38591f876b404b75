// Siege: one verified victim of tenant blue, and attacks of others beside it, one after the other.
// Each is reported with the victim's course beside its undisturbed one. The victim's answers have
// to be right under each, and half of its rounds no slower than four times those of 99 in 100 that
// nobody disturbs. The slowest ones are told only, because they depend on the machine. No thread of
// the daemons that serve the victim may be away from its loop for long.
// Thread: the test's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/siege/loop_watch.h"
#include "tests/siege/victim.h"
#include "tests/support/daemon_process.h"

namespace simm::siege {

// Users of the socket `crowd` are of tenants of their own: those from kCrowdUid on. One more user
// is of the default tenant. With red and blue that is every tenant that a daemon may have.
inline constexpr unsigned kCrowdUid = 60'000;
inline constexpr unsigned kCrowdTenants = 62;

// The keys of a daemon that can be besieged, and which sockets it has then.
std::string besieged_keys();
struct Place {
  // `behind`: the daemons that serve what `of` asks for.
  explicit Place(test_support::DaemonProcess& of, LoopWatch::Daemons behind = {});
  test_support::DaemonProcess& daemon;
  LoopWatch::Daemons agents;  // whose data agents serve the victim
  const std::string red;
  const std::string blue;
  const std::string crowd;
};

// How long an attack goes on: about a second, or a tenth of SIMM_SIEGE_SECONDS.
class Until {
public:
  Until();
  [[nodiscard]] bool is_over() const { return std::chrono::steady_clock::now() >= end_; }

private:
  const std::chrono::steady_clock::time_point end_;
};

// What an attacker does; returns soon after the time is over, and has nothing left then.
using Attack = std::function<void(const Place& place, const Until& until)>;

class Siege {
public:
  // Waits until the victim has its undisturbed course.
  Siege(const std::string& where, const Place& place);
  // One attack; afterwards nothing of it is left in the daemon.
  void endure(const std::string& name, const Attack& attack);

private:
  void check_pace(const Course& attacked);
  void check_loops(const std::string& name);

  const std::string where_;
  const Place& place_;
  Victim victim_;
  Course undisturbed_;
  LoopWatch loops_;
};

}  // namespace simm::siege
