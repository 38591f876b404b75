// What a client process and the daemon tell each other over the attach socket, as plain values.
// ipc/schema/attach.capnp is the format, ipc/control_codec.h the way in and out, ipc/ATTACH.md the
// sequence. A decoded value satisfies every limit named here; what a text or a number means is
// still the sender's claim.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ipc/key_news.h"
#include "ipc/layout.h"
#include "simm/status.h"

namespace simm::ipc {

inline constexpr std::size_t kControlMessageBytesMax = 64 * 1024;
inline constexpr std::size_t kNameBytesMax = 256;     // names, versions, addresses
inline constexpr std::size_t kReasonBytesMax = 1024;  // explanations; longer ones are cut

// How a region's memory reaches the daemon. The values of memory::RegionKind, and `automatic`: the
// daemon tries what the client's memory allows, in the order shared, adopted, staged.
enum class RegionRequestKind : std::uint16_t {
  automatic = 0,
  shared = 1,
  adopted = 2,
  staged = 3,  // reply only: the daemon can not see the memory, the client copies through a region
  foreign = 4,
  gpu = 5,
};
inline constexpr std::uint16_t kRegionRequestKindCount = 6;
const char* region_kind_name(RegionRequestKind kind) noexcept;

// Client to daemon.
// Extensions of the attach protocol: Hello says which ones the library understands, Welcome which
// of those hold. Either side ignores bits that are new to that side (feature bits refuse the
// attach). The daemon's devices or helpers may touch the client's memory for a while after the
// socket's hang-up. The end of its process is the fence.
inline constexpr std::uint32_t kReachOutlivesSocket = 1;
// Behind the other descriptors of Welcome comes the daemon's pidfd.
inline constexpr std::uint32_t kProcessDescriptor = 2;
// Behind those comes the page of death_mark.h.
inline constexpr std::uint32_t kDeathMark = 4;
// The client makes the session memory, and passes it with Mapped; none comes with Welcome.
inline constexpr std::uint32_t kClientMemory = 8;
// The daemon knows GpuLend and GpuReclaim, and answers them with LeaseReply.
inline constexpr std::uint32_t kGpuLeases = 16;
// The daemon answers FollowKeys.
inline constexpr std::uint32_t kKeyNews = 32;
inline constexpr std::uint32_t kExtensions =
    kReachOutlivesSocket | kProcessDescriptor | kDeathMark | kClientMemory | kGpuLeases | kKeyNews;

struct Hello {
  // The oldest layout that the library speaks: a daemon that knows no range looks at this one.
  std::uint32_t layout_version = kLayoutVersionMin;
  std::uint32_t feature_bits = kFeatureBits;
  std::string library_version;
  std::string client_name;
  std::uint32_t lane_count = 0;  // wanted; 0 = the daemon's default
  std::string manager_address;   // empty, or the daemon refuses when its own differs
  std::uint32_t extensions = 0;
  std::uint32_t layout_version_max = kLayoutVersion;  // the newest; 0: there is one only
  bool operator==(const Hello&) const = default;
};
// With kClientMemory it comes with one descriptor: the session's memory file.
struct Mapped {
  bool operator==(const Mapped&) const = default;
};
struct OpenNamespace {
  std::uint64_t request_id = 0;
  std::string name;
  bool exact_size = false;  // every get of it: another stored size is a miss
  bool shared = false;      // every get of it: other processes of the node read the same keys
  bool immutable = false;   // its keys are content hashes: a key has one value for ever
  bool operator==(const OpenNamespace&) const = default;
};
struct RegisterRegion {
  std::uint64_t request_id = 0;
  RegionRequestKind kind = RegionRequestKind::automatic;
  std::uint64_t address = 0;    // where the client sees byte 0
  std::uint64_t length = 0;     // bytes, > 0; address + length does not overflow
  std::uint64_t fd_offset = 0;  // of byte 0 in the descriptor that came along
  bool has_fd = false;
  std::string name;
  // kind gpu: the device, and the size of the allocation of which the descriptor is. `address` is
  // a device pointer then.
  std::array<std::uint8_t, 16> gpu_uuid{};
  std::uint64_t gpu_allocation_bytes = 0;
  bool operator==(const RegisterRegion&) const = default;
};
struct DeregisterRegion {
  std::uint64_t request_id = 0;
  RegionHandle handle = kNoRegion;
  bool operator==(const DeregisterRegion&) const = default;
};
// What becomes of the keys of one namespace of the session's tenant. Only with kKeyNews.
struct FollowKeys {
  std::uint64_t request_id = 0;
  std::uint64_t follower = 0;  // of the first reply; 0: a new one
  std::string name_space;      // of a new one
  std::uint64_t since = 0;     // `next` of the last reply
  std::uint64_t presents = 0;  // the same of that
  bool begins = false;         // all keys that are present are told, from the first one
  bool ends = false;
  bool operator==(const FollowKeys&) const = default;
};
struct Goodbye {
  bool operator==(const Goodbye&) const = default;
};
// Memory of a GPU that the client does not need for a while: the daemon may keep copies of objects
// there (daemon/memory/gpu/gpu_lease.h).
struct GpuLend {
  std::uint64_t request_id = 0;
  std::array<std::uint8_t, 16> uuid{};  // of the GPU
  std::uint64_t bytes = 0;
  std::uint32_t notice_ms = 0;  // how long the answer to a reclaim may take
  bool operator==(const GpuLend&) const = default;
};
struct GpuReclaim {
  std::uint64_t request_id = 0;
  std::uint64_t lease = 0;
  bool operator==(const GpuReclaim&) const = default;
};
using ClientMessage = std::variant<Hello, Mapped, OpenNamespace, RegisterRegion, DeregisterRegion,
                                   Goodbye, GpuLend, GpuReclaim, FollowKeys>;

// Daemon to client.
struct SessionLimits {
  std::uint64_t value_bytes_max = 0;
  std::uint32_t key_bytes_max = 0;
  std::uint32_t regions_max = 0;
  std::uint64_t default_timeout_ns = 0;
  std::uint32_t lease_default_ms = 0;
  std::uint32_t lease_max_ms = 0;
  bool operator==(const SessionLimits&) const = default;
};
// Comes with two descriptors: the session's memory file (not with kClientMemory) and its bell
// socket.
struct Welcome {
  std::uint32_t layout_version = kLayoutVersion;  // of this session
  std::uint32_t feature_bits = kFeatureBits;
  std::string daemon_version;
  std::uint64_t session_id = 0;
  std::string tenant;
  std::uint64_t session_bytes = 0;
  std::uint32_t lane_count = 0;
  SessionLimits limits;
  std::uint32_t extensions = 0;
  bool operator==(const Welcome&) const = default;
};
// One less with kClientMemory; one more with kProcessDescriptor, and with kDeathMark.
inline constexpr std::size_t kWelcomeFds = 2;
struct Opened {
  bool operator==(const Opened&) const = default;
};
struct Refused {
  Status status = Status::incompatible;
  std::string reason;
  bool operator==(const Refused&) const = default;
};
struct NamespaceReply {
  std::uint64_t request_id = 0;
  Status status = Status::ok;
  std::uint16_t id = 0;
  std::string reason;
  bool operator==(const NamespaceReply&) const = default;
};
struct RegionReply {
  std::uint64_t request_id = 0;
  Status status = Status::ok;
  RegionHandle handle = kNoRegion;
  RegionRequestKind kind = RegionRequestKind::staged;
  std::string reason;  // which kind was chosen and why
  bool operator==(const RegionReply&) const = default;
};
struct DeregisterReply {
  std::uint64_t request_id = 0;
  Status status = Status::ok;
  bool operator==(const DeregisterReply&) const = default;
};
// To GpuLend and GpuReclaim.
struct LeaseReply {
  std::uint64_t request_id = 0;
  Status status = Status::ok;
  std::uint64_t lease = 0;  // the session's number for it, from 1 on
  std::string reason;
  bool operator==(const LeaseReply&) const = default;
};
struct Poisoned {
  PoisonReason reason = PoisonReason::none;
  bool operator==(const Poisoned&) const = default;
};
// invalid_state: the daemon's events.keys is off. not_found: the follower is forgotten.
// out_of_memory: the tenant has too many.
struct KeyEventsReply {
  std::uint64_t request_id = 0;
  Status status = Status::ok;
  std::string reason;
  std::uint64_t follower = 0;
  std::uint64_t salt = 0;  // of the tokens: another one in each life of the daemon
  std::uint64_t next = 0;
  std::uint64_t presents = 0;
  std::uint64_t missed = 0;  // events that the daemon did not keep for so long
  bool is_last = true;
  bool is_complete = false;   // of what `begins` asked for
  std::vector<KeyNews> news;  // at most kKeyNewsMax
  bool operator==(const KeyEventsReply&) const = default;
};
using DaemonMessage = std::variant<Welcome, Opened, Refused, NamespaceReply, RegionReply,
                                   DeregisterReply, Poisoned, LeaseReply, KeyEventsReply>;

}  // namespace simm::ipc
