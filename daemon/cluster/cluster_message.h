// What a member (any daemon but the manager) and the manager tell each other, as plain values.
// schema/cluster.capnp is the format, cluster_codec.h the way in and out. Who speaks is not in the
// messages: the hello of the connection has proved it. Thread: any.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "daemon/base/load.h"
#include "daemon/cluster/map_delta.h"
#include "daemon/cluster/slot_map.h"
#include "simm/status.h"

namespace simm::cluster {

// The largest map (1,024 members with the longest names, a tenure for each slot) fits.
inline constexpr std::size_t kClusterMessageBytesMax = 1 << 20;
inline constexpr std::size_t kTargetBytesMax = 80;  // "storage/" and a name
inline constexpr std::size_t kAnswerBytesMax = 512 * 1024;
inline constexpr std::uint32_t kNodesPageMax = 512;  // daemons in one answer about them
// Those of such an answer together; beside them is what it says of the cluster.
inline constexpr std::size_t kNodesPageBytesMax = kAnswerBytesMax - 4096;
inline constexpr std::size_t kReasonBytesMax = 1024;  // longer ones are cut

// What simmctl can ask of the cluster. The manager answers nodes, slots, and with an empty
// target stats; peers, stats and moves of a daemon are passed on to it, and so are drains. The
// numbers are part of the wire. Those from drain on are for ends with kFeatureDrains only.
enum class Topic : std::uint8_t {
  nodes = 0,
  slots = 1,
  peers = 2,
  stats = 3,
  drain = 4,         // hand your slots over
  cancel_drain = 5,  // and no more: take them back
  moves = 6,
};
inline constexpr std::uint8_t kTopicCount = 7;
// The longest time that a drain may be given.
inline constexpr std::uint32_t kDrainMsMax = 24 * 3'600'000;

struct Question {
  std::uint64_t id = 0;  // the requester's own
  Topic topic = Topic::nodes;
  // Full name of a daemon ("storage/a"), or its plain name. Of nodes: "+" and the full name behind
  // which a page of kNodesPageMax begins; empty: all that an answer holds. An answer with "next" is
  // not all, and has the name of the next page. A manager of an older release always answers all.
  // With "=" in place of "+" each daemon has its load; an older manager leaves that out.
  std::string target;
  std::uint32_t deadline_ms = 0;  // of a drain; 0: none
  bool is_named = false;          // of a drain: a person has named the daemon
  bool is_forced = false;         // of a drain: also beside another one
  bool operator==(const Question&) const = default;
};
struct Answer {
  std::uint64_t id = 0;
  Status status = Status::ok;
  std::string text;  // JSON; of an error: what is wrong
  bool operator==(const Answer&) const = default;
};

// ---- from a member ----

// First message on a connection. A daemon without slots (weight 0) only subscribes to maps.
struct Join {
  std::string address;  // of its data listener; empty with weight 0
  std::uint16_t port = 0;
  std::uint16_t shards = 0;
  std::uint64_t weight_bytes = 0;
  base::Epoch map_epoch = 0;     // of the newest map that it knows; 0: none
  bool draining = false;         // it is about to stop: no slots for it
  bool recovering = false;       // it reads back what its memory holds, and serves nothing yet
  std::uint32_t grace_ms = 0;    // see MapMember
  Lineage lineage = {};          // of that map; not set: unknown, or none
  std::uint64_t map_digest = 0;  // SlotMap::digest(); 0: the previous release says none
  bool operator==(const Join&) const = default;
};
// Members of one map, by their index in it.
using MemberSet = std::bitset<kMembersMax>;

struct Heartbeat {
  std::uint64_t sequence = 0;
  base::Epoch map_epoch = 0;
  std::uint64_t objects = 0;
  std::uint64_t used_bytes = 0;
  bool recovering = false;
  // Whom of the map of map_epoch it has data connections to; none: it does not say.
  std::optional<MemberSet> reached = std::nullopt;
  std::uint64_t map_digest = 0;  // as in Join
  bool wants_map = false;        // the last MapDelta was about another map: send the whole one
  bool draining = false;         // it hands its slots over, step by step, or has done so
  // What the daemon has done, and when that was so by its own clock. 0 ms: not in this heartbeat;
  // once a second is enough.
  std::uint64_t load_ms = 0;
  base::Load load = {};
  bool operator==(const Heartbeat&) const = default;
};
// Answer to MapWanted.
struct MapReport {
  SlotMapPtr map;
};
// It is about to stop: its slots move at once.
struct Leave {
  bool operator==(const Leave&) const = default;
};
using MemberMessage = std::variant<Join, Heartbeat, MapReport, Leave, Question, Answer>;

// ---- from the manager ----
// One of them is MapDelta, in place of a MapPush, to a member with kFeatureMapDeltas.

struct Joined {
  std::uint64_t heartbeat_ns = 0;  // how often to send one
  base::Epoch epoch = 0;
  std::uint16_t cluster_version = 0;  // that all daemons speak; 0: the manager does not say it
  bool operator==(const Joined&) const = default;
};
// The connection ends after it.
struct Refused {
  bool final = false;  // asking again changes nothing: this incarnation must stop
  std::string reason;
  bool stands_by = false;  // another manager leads: this one says nothing about the member
  bool operator==(const Refused&) const = default;
};
struct HeartbeatAck {
  std::uint64_t sequence = 0;
  base::Epoch epoch = 0;
  std::uint16_t cluster_version = 0;  // as in Joined
  std::uint64_t heartbeat_ns = 0;     // as in Joined, from now on; 0: as before
  bool operator==(const HeartbeatAck&) const = default;
};
struct MapPush {
  SlotMapPtr map;
};
// The member knows a map that the manager does not: a newer one, or another one of that epoch.
struct MapWanted {
  bool operator==(const MapWanted&) const = default;
};
using ManagerMessage =
    std::variant<Joined, Refused, HeartbeatAck, MapPush, MapDelta, MapWanted, Question, Answer>;

// How often daemons send heartbeats where they are few. Then each is answered. Of many daemons the
// manager answers one heartbeat in kAnswerPauseNs, or in four intervals, and at once when it has
// something new to say. An answer is most of what a heartbeat costs it.
inline constexpr std::uint64_t kHeartbeatNsUsual = 100'000'000;
inline constexpr std::uint64_t kAnswerPauseNs = 400'000'000;
// How often heartbeats may be asked for.
inline constexpr std::uint64_t kHeartbeatNsMin = 1'000'000;
inline constexpr std::uint64_t kHeartbeatNsMax = 60'000'000'000;

inline bool operator==(const MapReport& a, const MapReport& b) {
  return *a.map == *b.map;
}
inline bool operator==(const MapPush& a, const MapPush& b) {
  return *a.map == *b.map;
}

}  // namespace simm::cluster
