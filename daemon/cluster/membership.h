// Membership: whom a manager knows, who is alive, and who is to own slots. Rules, and nothing but
// rules: no map, no bytes, no connections but their numbers; time by a Clock.
//
//   joining ──► live ◄──────► away ── rejoin_grace ──► gone (its slots move)
//                │ Leave       (silent or disconnected; keeps its slots)
//                └──► draining (its slots move at once)
//
// A member that recovers is as live as any other: it keeps its slots for as long as it is heard.
// One that has none then gets some when it has recovered.
//
// A name belongs to one incarnation. While that one is live another of the same name is refused.
// Else the other takes its place, and the former incarnation is retired: it never comes back. So is
// one that was gone and forgotten when another took its place in the map. A holder whom
// the manager could not hear keeps its name until it can have come back: after a start, after a
// turn that came late, and for a moment after its connection broke. One that drains takes no name.
//
// The grace runs only where silence proves something. A manager that hears no owner of slots, or
// with itself no more than half of the daemons, is cut off itself: it declares nobody gone. Nor
// does it while half of the daemons that say so have connections to the silent one.
//
// A member that comes back is marked (MapMember::back_since), if others may have written without
// it: its process is another one, or somebody who says so had no connection to it either.
//
// A holder of the cluster's secret can join with any name and any weight, and so take slots. Where
// a list of owners is given, only those may own slots, and no more than it says.
// Thread: the manager's control thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/cluster/backoff.h"
#include "daemon/cluster/cluster_message.h"
#include "daemon/cluster/hello/hello.h"
#include "daemon/cluster/manager_state.h"

namespace simm::cluster {

// The manager's name of one control connection; 0: none.
using ConnectionId = std::uint64_t;

// Owners and subscribers together.
inline constexpr std::uint32_t kDaemonsMax = 4096;
// In the list of `cluster.manager`.
inline constexpr std::uint32_t kManagersMax = 5;
// A daemon finds the manager that leads within this time: it waits once, and then asks all managers
// of its list without a wait (ClusterDialer). Each that is silent costs it a whole attempt, and the
// one that leads is the last and may be slow. Numeric addresses; a name may take longer.
inline constexpr base::TimeNs kFindManagerNs =
    Backoff::kLongestNs + kManagersMax * Backoff::kAttemptNs;
// The same where the cluster has one manager, and lists name no other.
inline constexpr base::TimeNs kFindOnlyManagerNs = Backoff::kLongestNs + Backoff::kAttemptNs;
// For so many graces a lost subscriber counts among the daemons that a manager should hear: until
// then the manager may be cut off from it.
inline constexpr std::uint32_t kLostGraces = 10;

// A daemon that may own slots.
struct AllowedOwner {
  std::string name;  // of whatever role
  std::uint64_t weight_bytes_max = 0;
  std::uint16_t shards_max = 0;
};

struct MembershipConfig {
  base::TimeNs member_timeout_ns = 1 * base::kNsPerSecond;  // silent for so long: away
  // Away for so long: its slots move. A member whose memory takes long to come back has asked for
  // more (MapMember::grace_ms).
  base::TimeNs rejoin_grace_ns = 30 * base::kNsPerSecond;
  // So long a daemon may need to find the manager again, once that is there.
  base::TimeNs redial_ns = kFindManagerNs;
  // All known daemons speak a newer version for so long: then it is the cluster's. Longer than a
  // connection needs to come back, so that one that breaks does not look like an upgrade.
  base::TimeNs version_settle_ns = 3 * base::kNsPerSecond;
  std::uint32_t daemons_max = kDaemonsMax;
  std::vector<AllowedOwner> owners;  // empty: everybody may own slots
};

enum class MemberState : std::uint8_t { live, away, draining, gone };
const char* member_state_name(MemberState state) noexcept;

struct KnownMember {
  DaemonIdentity identity;
  Join joined;                // what it said when it joined last
  std::uint16_t version = 0;  // of the protocol, agreed on when it joined; 0: known from a map only
  MemberState state = MemberState::live;
  ConnectionId connection = 0;
  base::TimeNs heard_ns = 0;
  base::TimeNs away_ns = 0;    // since when
  base::TimeNs missed_ns = 0;  // since when its grace runs
  base::TimeNs broken_ns = 0;  // when its connection ended, if it has none
  bool is_hearsay = false;     // never heard here: another member's map names it
  Heartbeat last;
  bool owns_later = false;     // it joined without slots, to get some when it has recovered
  base::Epoch back_since = 0;  // as in the last map
  bool was_unreached = false;  // while it is away: another daemon did not reach it either
  bool is_back = false;        // no map says so yet

  [[nodiscard]] bool owns_slots() const noexcept { return joined.weight_bytes > 0; }
};

// For people: who hands its slots over step by step drains as well.
MemberState shown_state(const KnownMember& member) noexcept;

// What becomes of an attempt to join.
struct JoinVerdict {
  enum class Kind : std::uint8_t { accepted, refused, refused_for_ever } kind = Kind::accepted;
  std::string reason;           // of a refusal, for people
  ConnectionId superseded = 0;  // a connection to close: another one has taken its place
};

// Whom the daemons that say so have no connection to, though all are heard here.
struct Unreached {
  std::vector<std::uint32_t> by;  // how many of them, by the member's index in the map
  std::uint32_t tellers = 0;      // how many say so, of this map
};

class Membership {
public:
  Membership(const MembershipConfig& config, const base::Clock& clock);

  // What a manager that died knew, or what a member's map tells: its owners are away from now on
  // and have the whole grace to come back. Members already known stay as they are. Of the others
  // as many are taken as a map has room for; none whose incarnation is known by another name.
  void restore(const SlotMap& map);
  // The same of a map that a member brought. That they are not heard proves nothing about this
  // manager: nobody else may know them.
  void restore_hearsay(const SlotMap& map);
  void restore(const std::vector<DaemonIdentity>& retired);

  JoinVerdict join(ConnectionId connection, const DaemonIdentity& identity, const Join& join,
                   std::uint16_t version = kHelloVersionMax);
  // False: that connection has not joined.
  bool heard(ConnectionId connection, const Heartbeat& heartbeat);
  void drain(ConnectionId connection);
  void disconnected(ConnectionId connection);
  // Silence and grace. `map`: the one that heartbeats are about, null for none. Returns how many
  // changed.
  int tick(const SlotMap* map);
  // It hears too few daemons to declare anybody gone.
  [[nodiscard]] bool is_cut_off() const noexcept { return cut_off_; }

  // The cluster's protocol version. It falls as soon as a member of an older one joins, and rises
  // when all have spoken a newer one for version_settle_ns.
  [[nodiscard]] std::uint16_t version() const noexcept { return version_; }

  // Of that map, by the last heartbeats.
  [[nodiscard]] Unreached unreached(const SlotMap& map) const;

  // Who should own slots now. `next`: of the map that says who is back; 0: none shall say so.
  [[nodiscard]] std::vector<MapMember> owners(base::Epoch next = 0) const;
  // That map has been stored.
  void note_map(const SlotMap& map);
  // Another number whenever owners() or someone_drains() may have changed.
  [[nodiscard]] std::uint64_t owners_revision() const noexcept { return owners_revision_; }
  // True when somebody's slots move by its own wish: no reason to wait for others.
  [[nodiscard]] bool someone_drains(const SlotMap& map) const;

  // Retires the members of the map `before` whose names other incarnations have in the map `now`.
  void retire_replaced(const SlotMap& before, const SlotMap& now);
  [[nodiscard]] const std::vector<DaemonIdentity>& retired() const noexcept { return retired_; }
  // By full name.
  [[nodiscard]] const std::map<std::string, KnownMember>& members() const noexcept {
    return members_;
  }
  [[nodiscard]] const KnownMember* find(ConnectionId connection) const;

private:
  [[nodiscard]] KnownMember* find_mutable(ConnectionId connection) const;
  [[nodiscard]] bool lives(const KnownMember& member) const;
  [[nodiscard]] bool keeps_its_name(const KnownMember& member) const;
  // For whom that name is kept, whoever has it now. Null: for nobody.
  [[nodiscard]] const Incarnation* former_holder(const std::string& name) const;
  // First of all in each turn: one that came late is nobody's fault.
  void look_at_clock();
  [[nodiscard]] std::string not_allowed(const DaemonIdentity& identity, const Join& join) const;
  [[nodiscard]] std::optional<JoinVerdict> refusal(const KnownMember* holder,
                                                   const DaemonIdentity& identity,
                                                   const Join& join) const;
  [[nodiscard]] std::size_t count_owners() const;
  [[nodiscard]] bool has_room_for_an_owner() const { return count_owners() < kMembersMax; }
  // Null: nobody has that incarnation under another name.
  [[nodiscard]] const KnownMember* namesake_of(const DaemonIdentity& identity) const;
  void restore(const SlotMap& map, bool is_hearsay);
  void retire(const DaemonIdentity& identity);
  [[nodiscard]] bool is_retired(const DaemonIdentity& identity) const;
  [[nodiscard]] base::TimeNs grace_ns(const KnownMember& member) const;
  void go_away(KnownMember& member, base::TimeNs now_ns);
  // It is heard again. What was written meanwhile was written without it, if others missed it too.
  void note_return(KnownMember& member) const;
  // All members in one look, in which the silent ones go away.
  struct Census {
    int went_away = 0;
    base::TimeNs good_until_ns = 0;  // nobody is silent before; then, or after a change, look again
    std::uint16_t lowest_version = 0;
    std::size_t heard = 1;  // of the daemons that should be, this manager among them
    std::size_t all = 1;    // that should be heard
    bool hears_owner = false;
    bool is_someone_away = false;
    bool does_someone_not_matter = false;
  };
  [[nodiscard]] const Census& take_census(base::TimeNs now_ns);
  // After whatever a census counts has changed.
  void look_at_all_again() noexcept { census_.good_until_ns = 0; }
  // `lowest`: the version of the oldest member.
  void settle_version(std::uint16_t lowest);
  [[nodiscard]] std::uint16_t lowest_version() const;
  void ask_the_others(const SlotMap& map, base::TimeNs now_ns);
  // Subscribers and gone members that are not connected are forgotten.
  [[nodiscard]] static bool matters(const KnownMember& member);
  void forget(std::map<std::string, KnownMember>::iterator at);

  const MembershipConfig config_;
  const base::Clock& clock_;
  std::map<std::string, KnownMember> members_;
  std::unordered_map<ConnectionId, KnownMember*> connections_;  // of members_, and has joined
  std::map<Incarnation, std::string> names_;                    // of members_
  std::uint64_t owners_revision_ = 0;
  std::vector<DaemonIdentity> retired_;
  struct Lost {
    Incarnation incarnation;
    base::TimeNs since_ns = 0;
  };
  // Subscribers that were lost, by full name; daemons_max at most.
  std::map<std::string, Lost> lost_;
  // A grace may be over before the time for which names are kept. Then slots have moved, and the
  // name is still its holder's. A later stop of the manager does not make that time longer.
  struct Gone {
    Incarnation incarnation;
    base::TimeNs until_ns = 0;
  };
  std::map<std::string, Gone> gone_;  // by full name; daemons_max at most
  Census census_;                     // the last one
  base::TimeNs looked_ns_;            // at the clock
  base::TimeNs names_kept_ns_ = 0;    // until then every name is its holder's
  base::TimeNs asked_ns_ = 0;         // when it was last asked whom others reach
  bool cut_off_ = false;
  std::uint16_t version_ = kHelloVersionMin;
  std::optional<base::TimeNs> newer_since_ns_;  // since when all speak a newer one
};

}  // namespace simm::cluster
