// The values of the hello: who a daemon says it is, what a connection is for, and how it ended.
// Plain values. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/cluster/hello/daemon_identity.h"
#include "daemon/cluster/hello/hello_wire.h"
#include "daemon/cluster/hello/secret.h"

namespace simm::cluster {

inline constexpr std::uint16_t kHelloVersionMin = 5;  // 5: stripes over RDMA
inline constexpr std::uint16_t kHelloVersionMax = 6;  // 6: the manager says what all speak

// What this daemon is to all others. Outlives every hello that is made with it.
struct HelloSelf {
  std::string cluster;  // is_cluster_name()
  std::string name;     // of this daemon, unique in its cluster; is_cluster_name()
  Incarnation incarnation;
  ClusterRole role = ClusterRole::node;
  std::uint16_t shards = 0;                 // that it serves; 0: it takes no data connections
  std::uint64_t features = 0;               // bits that it understands
  std::uint64_t hash_seed_fingerprint = 0;  // ClusterSecret::fingerprint_of
  std::uint16_t version_min = kHelloVersionMin;
  std::uint16_t version_max = kHelloVersionMax;
  std::uint32_t process = 0;  // random, below 1 << kProcessBits: an incarnation may outlive one
};

enum class HelloPurpose : std::uint8_t {
  control = 1,     // messages in tagged frames
  data = 2,        // the bare socket, for a data agent
  queue_pair = 3,  // messages in tagged frames, that connect a queue pair of a data agent
  report = 4,      // one message in a tagged frame: what this manager is just now
};

// Bits of HelloSelf::features.
// It has RDMA ports that others may connect to.
inline constexpr std::uint64_t kFeatureQueuePairs = 1 << 0;
// Messages of its data links carry tags (transport/frame_seal.h).
inline constexpr std::uint64_t kFeatureFrameTags = 1 << 1;
// Offers to connect a queue pair say which of the requester's rails it is.
inline constexpr std::uint64_t kFeatureRailPlaces = 1 << 2;
// Its hello ends with a long message each way, so that no path is used which swallows long packets.
inline constexpr std::uint64_t kFeaturePathProof = 1 << 3;
// Its servers take pings as long as a part over RDMA, and answer them alike.
inline constexpr std::uint64_t kFeatureLongPings = 1 << 4;
// It takes a new map as the difference to the one that it has (cluster/map_delta.h).
inline constexpr std::uint64_t kFeatureMapDeltas = 1 << 5;
// Its servers take objects that move on with their slot (moves/slot_mover.h).
inline constexpr std::uint64_t kFeatureMovedPuts = 1 << 6;
// It knows drains on request: a daemon takes them, a manager passes them on.
inline constexpr std::uint64_t kFeatureDrains = 1 << 7;
// Its servers take the trace that a request is part of (wire::TraceBody).
inline constexpr std::uint64_t kFeatureTraces = 1 << 8;
// Its servers hear what a former owner still has of slots that move (moves/move_teller.h).
inline constexpr std::uint64_t kFeatureMovedTells = 1 << 9;

// What the dialer wants.
struct HelloRequest {
  HelloPurpose purpose = HelloPurpose::control;
  Incarnation target;       // must be set; control, report: zero is whoever answers there
  std::uint16_t shard = 0;  // data, queue_pair: of the target
  std::uint64_t link = 0;   // data, queue_pair: the dialer's number for this connection
};

// Whoever answers at the address may be meant, and no shard is.
[[nodiscard]] constexpr bool is_for_daemon(HelloPurpose purpose) noexcept {
  return purpose == HelloPurpose::control || purpose == HelloPurpose::report;
}
// A manager that looks at all managers of a list is one of them.
[[nodiscard]] constexpr bool may_reach_itself(HelloPurpose purpose) noexcept {
  return purpose == HelloPurpose::report;
}

// The upper bits of a connection's number say which process has dialled it.
inline constexpr unsigned kProcessBits = 24;
[[nodiscard]] inline std::uint64_t first_link_of(const HelloSelf& self) noexcept {
  return std::uint64_t{self.process} << (64 - kProcessBits) | 1;
}
[[nodiscard]] inline std::uint32_t process_of(const HelloRequest& request) noexcept {
  return static_cast<std::uint32_t>(request.link >> (64 - kProcessBits));
}

using HelloPeer = DaemonIdentity;

// Keys of the two directions of one connection.
struct FrameKeys {
  Mac send;
  Mac receive;
};

struct HelloResult {
  HelloPeer peer;
  HelloRequest request;  // the dialer's, at both ends
  std::uint16_t version = 0;
  std::uint64_t features = 0;  // those that both understand
  FrameKeys keys;
};

// Why there is no connection. The numbers are part of the wire; only append. The first two are
// found at this end and never sent.
enum class HelloRefusal : std::uint32_t {
  none = 0,
  garbage = 1,   // no hello of ours, or damaged on the way
  impostor = 2,  // the acceptor did not prove that it knows the secret, or is not the target
  version = 3,
  cluster_name = 4,
  secret_missing = 5,  // one of both has a secret, the other one none
  proof = 6,           // the dialer did not prove that it knows the secret
  itself = 7,          // the dialer's incarnation is the acceptor's
  hash_seed = 8,
  target = 9,    // another incarnation lives here now
  shard = 10,    // no such shard
  no_room = 11,  // its share of the acceptor's links is used up
};

[[nodiscard]] bool is_sent_refusal(std::uint32_t value) noexcept;
// What it means and what to do about it, for a person.
[[nodiscard]] std::string_view refusal_text(HelloRefusal refusal) noexcept;
[[nodiscard]] Status refusal_status(HelloRefusal refusal) noexcept;

// 1 to 64 characters of A-Z a-z 0-9 . _ -: fit for logs and file names without quoting.
[[nodiscard]] bool is_cluster_name(std::string_view name) noexcept;

// Names and incarnations as they stand in messages. `name_of` is empty for what is no cluster name
// followed by zeros.
[[nodiscard]] WireName wire_name(std::string_view name) noexcept;
[[nodiscard]] std::optional<std::string> name_of(const WireName& name);
[[nodiscard]] inline WireIncarnation wire_incarnation(const Incarnation& value) noexcept {
  return {value.high, value.low};
}
[[nodiscard]] inline Incarnation incarnation_of(const WireIncarnation& value) noexcept {
  return {value.high, value.low};
}

}  // namespace simm::cluster
