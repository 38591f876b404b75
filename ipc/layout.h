// The bytes that a client process and the daemon share: one memfd per session. This header is the
// format; ipc/FORMAT.md is its table. Fixed-size little-endian words only, every offset asserted.
//
//   SessionHeader | lane 0 | lane 1 | ... | lane (lane_count - 1)
//   lane: LaneControl | submissions | completions | page descriptors | page results | key bytes
//
// A lane is a pair of single-producer single-consumer rings plus the memory that its submissions
// refer to. A thread borrows a lane for a call. The client alone decides which descriptors, results
// and key bytes of its lane a submission uses; once the completion is read it may use them again.
// The daemon checks only that they lie inside the lane: an overlap harms nobody but the client.
//
// Trust: every byte is writable by the client at any time. The daemon keeps its own cursors and
// capacities privately, copies an entry once, validates the copy, and never reads it again.
// Cursors are free-running 32-bit counters; slot = cursor & (capacity - 1).
#pragma once

#include <cstddef>
#include <cstdint>

namespace simm::ipc {

inline constexpr std::uint64_t kSessionMagic = 0x31304d4d49534d53;  // "SMSIMM01", little-endian
inline constexpr std::uint32_t kLayoutVersion = 1;                  // the newest one that is spoken
inline constexpr std::uint32_t kLayoutVersionMin = 1;               // the oldest one
inline constexpr std::uint32_t kFeatureBits =
    0;  // none defined yet; unknown bits refuse the attach

// Limits of the protocol. The daemon may grant less (AttachReply), never more.
inline constexpr std::uint32_t kLanesMax = 64;
inline constexpr std::uint32_t kPagesPerSubmissionMax = 1024;
inline constexpr std::uint32_t kKeyBytesMax = 1024;
inline constexpr std::uint32_t kRegionsMax = 4096;  // per session; a handle's index has 16 bits
inline constexpr std::uint64_t kValueBytesMax = 1ull << 30;
// An object may not be longer than kValueBytesMax; an offset into a region may be anything.

// Capacities of one lane (powers of two).
inline constexpr std::uint32_t kSubmissionSlots = 64;
inline constexpr std::uint32_t kCompletionSlots = 64;  // >= kSubmissionSlots: see CQ starvation
inline constexpr std::uint32_t kPageSlots = 2048;
inline constexpr std::uint32_t kKeyArenaBytes = 256 * 1024;
static_assert(kPagesPerSubmissionMax * 128 <= kKeyArenaBytes, "1,024 pages with 128-byte keys fit");

enum class Opcode : std::uint8_t {
  noop = 0,
  put = 1,
  get = 2,
  exists = 3,
  remove = 4,
  pin = 5,  // keeps objects from eviction until unpin
  unpin = 6,
};
inline constexpr std::uint8_t kOpcodeCount = 7;

enum class PutMode : std::uint8_t {
  if_absent = 0,  // an existing key answers success without moving a byte
  replace = 1,    // atomic: readers see the old or the new object
};

// Submission::flags. Unknown bits are a malformed submission.
// All of get: another stored size than `length` is a miss; other processes of this node read it
// too; the slice takes what it holds of a longer object (implied by an object_offset).
inline constexpr std::uint16_t kFlagExactSize = 1;
inline constexpr std::uint16_t kFlagShared = 2;
inline constexpr std::uint16_t kFlagRanged = 4;
// Of any opcode with pages: the lane's trace context of the submission's slot counts.
inline constexpr std::uint16_t kFlagTraced = 8;
inline constexpr std::uint16_t kFlagsKnown =
    kFlagExactSize | kFlagShared | kFlagRanged | kFlagTraced;

// Region handle: what a page descriptor names memory by. Made by the daemon, checked at every use.
using RegionHandle = std::uint32_t;  // generation << 16 | index; generation is never 0
inline constexpr RegionHandle kNoRegion = 0;
constexpr RegionHandle make_region_handle(std::uint16_t index, std::uint16_t generation) {
  return static_cast<RegionHandle>(generation) << 16 | index;
}

// One page of a batch. 64 bytes: one cache line, one copy.
struct PageDescriptor {
  std::uint64_t offset;         // of the slice inside the region, bytes (put, get)
  std::uint64_t length;         // of the slice, bytes; put: the object's length
  std::uint64_t object_offset;  // get: first byte of the object to read (ranged get), else 0
  RegionHandle region;          // kNoRegion when no bytes move
  std::uint32_t key_offset;     // into the lane's key bytes
  std::uint32_t key_bytes;      // 1 .. kKeyBytesMax
  std::uint32_t depth;          // put: position in its prefix, in pages; 0 = unknown. A hint.
  std::uint64_t reserved[3];    // zero
};
static_assert(sizeof(PageDescriptor) == 64);

// One batch. 64 bytes.
struct Submission {
  std::uint64_t token;       // the client's own; returned in the completion, never interpreted
  std::uint64_t timeout_ns;  // from the moment the daemon takes it; 0 = the daemon's default
  std::uint32_t page_first;  // index into the lane's page descriptors (and page results)
  std::uint32_t page_count;  // 1 .. kPagesPerSubmissionMax; 0 for noop
  std::uint32_t ttl_ms;      // put: 0 = no limit of its own
  std::uint32_t lease_ms;    // exists, get: 0 = the daemon's default
  std::uint16_t name_space;  // id from OpenNamespace of this session; 0 = the default namespace
  std::uint16_t flags;       // kFlag*
  std::uint8_t opcode;       // Opcode
  std::uint8_t put_mode;     // PutMode
  std::uint16_t reserved0;   // zero
  // Above 0: it is given up when nothing of it has moved for so long; timeout_ns is the latest end.
  // 0 where SessionHeader::progress is 0.
  std::uint64_t patience_ns;
  std::uint64_t reserved[2];  // zero
};
static_assert(sizeof(Submission) == 64);
static_assert(offsetof(Submission, patience_ns) == 40);

// Of out_of_memory: the page's slice may have pages that are not present, and the daemon makes no
// more of them present. The client faults them in and submits the page again.
inline constexpr std::uint32_t kDetailAbsent = 1;

// What became of one page; written by the daemon into the slot of the same index as its descriptor,
// before the completion is published. It counts only with a completion whose status is ok: before
// that the slice may still be written.
struct PageResult {
  std::int32_t status;   // simm::Status
  std::uint32_t detail;  // kDetail*, zero for all else
  std::uint64_t bytes;   // get: bytes written into the slice; put, exists: the object's length
};
static_assert(sizeof(PageResult) == 16);

// The end of one batch. When it is visible nothing touches the batch's slices any more.
struct Completion {
  std::uint64_t token;
  std::int32_t status;     // ok when the batch was carried out, whatever became of its pages
  std::uint32_t pages_ok;  // pages whose result is Status::ok
  std::uint64_t bytes_moved;
  std::uint64_t reserved;  // zero
};
static_assert(sizeof(Completion) == 32);

// What the client's own trace says of a submission (W3C Trace Context, version 00): the numbers of
// which `traceparent` is the hexadecimal text. Lies in the slack of the lane, one for each
// submission slot, and is never looked at without kFlagTraced. Any value is allowed.
struct TraceContext {
  std::uint64_t trace_high;
  std::uint64_t trace_low;
  std::uint64_t parent;  // id of the span that the submission belongs to
  std::uint64_t reserved;
};
static_assert(sizeof(TraceContext) == 32);

// A shared 32-bit word on a cache line pair of its own: the adjacent-line prefetcher works on 128
// B.
struct alignas(128) SharedLine {
  std::uint32_t word;
  std::uint32_t pad[31];
};
static_assert(sizeof(SharedLine) == 128);

// Cursors and wait flags of one lane; each line has one writer, named behind it.
struct LaneControl {
  SharedLine submission_tail;  // client: submissions published
  SharedLine submission_head;  // daemon: submissions taken
  SharedLine completion_tail;  // daemon: completions published
  SharedLine completion_head;  // client: completions read
  SharedLine client_waiting;   // client sets before it sleeps (ClientWait), daemon clears to wake;
                               // the client's futex word (why this one: FORMAT.md)
  SharedLine reserved[3];
};
static_assert(sizeof(LaneControl) == 1024);

// LaneControl::client_waiting: how the client wants to be woken by the next completion.
enum class ClientWait : std::uint32_t {
  none = 0,   // it polls
  futex = 1,  // FUTEX_WAKE on client_waiting
  bell = 2,   // one message on the session's bell socket (pollable)
};

inline constexpr std::size_t kLaneSubmissionsOffset = sizeof(LaneControl);
inline constexpr std::size_t kLaneCompletionsOffset =
    kLaneSubmissionsOffset + kSubmissionSlots * sizeof(Submission);
inline constexpr std::size_t kLanePagesOffset =
    kLaneCompletionsOffset + kCompletionSlots * sizeof(Completion);
inline constexpr std::size_t kLaneResultsOffset =
    kLanePagesOffset + kPageSlots * sizeof(PageDescriptor);
inline constexpr std::size_t kLaneKeysOffset = kLaneResultsOffset + kPageSlots * sizeof(PageResult);
inline constexpr std::size_t kLaneTracesOffset = kLaneKeysOffset + kKeyArenaBytes;
// A page of slack behind each lane keeps the next lane's control lines off the same hardware sets.
inline constexpr std::size_t kLaneBytes =
    (kLaneKeysOffset + kKeyArenaBytes + 4095) / 4096 * 4096 + 4096;
static_assert(kLaneSubmissionsOffset == 1024);
static_assert(kLaneCompletionsOffset == 5120);
static_assert(kLanePagesOffset == 7168);
static_assert(kLaneResultsOffset == 138240);
static_assert(kLaneKeysOffset == 171008);
static_assert(kLaneTracesOffset == 433152);
static_assert(kLaneTracesOffset + kSubmissionSlots * sizeof(TraceContext) <= kLaneBytes);
static_assert(kLaneBytes == 438272);

// SessionHeader::state, written by the daemon only. (A client that forges it fools itself.)
enum class SessionState : std::uint32_t {
  starting = 0,
  open = 1,
  draining = 2,  // no new submissions are taken; what is in flight completes
  closed = 3,
  poisoned = 4,  // poison_reason says why; nothing will complete any more
};

// Why a session was poisoned. Append only.
enum class PoisonReason : std::uint32_t {
  none = 0,
  ring_cursor = 1,             // submission tail claims more than the ring holds
  completion_overflow = 2,     // completion head runs ahead, or completions are never read
  bad_submission = 3,          // unknown opcode, flag, mode, non-zero reserved words, page range
  bad_descriptor = 4,          // key range, region handle, slice range, length
  bad_message = 5,             // malformed or oversized control message
  bad_descriptor_passing = 6,  // too many or unexpected file descriptors
  region_fault = 7,            // region memory vanished under a copy
  handshake_timeout = 8,
};
inline constexpr std::uint32_t kPoisonReasonCount = 9;

struct SessionHeader {
  std::uint64_t magic;
  std::uint64_t session_bytes;  // of the whole memfd
  std::uint32_t feature_bits;
  std::uint32_t lane_count;
  std::uint32_t lane_bytes;  // kLaneBytes; a newer layout may differ
  std::uint32_t submission_slots;
  std::uint32_t completion_slots;
  std::uint32_t page_slots;
  std::uint32_t key_arena_bytes;
  std::uint32_t layout_version;  // written last, with release: all above is valid when it is set
  std::uint32_t pad0[20];
  SharedLine state;            // daemon: SessionState
  SharedLine poison_reason;    // daemon: PoisonReason
  SharedLine daemon_sleeping;  // daemon sets to 1 before it sleeps; the client that clears it sends
                               // one message on the bell socket
  SharedLine progress;         // daemon: 0: it knows no Submission::patience_ns; else a number that
                               // changes whenever some submission is given more time
  SharedLine traces;           // daemon: 1: it takes kFlagTraced; 0: it does not, or is older
  SharedLine pad1[26];
};
static_assert(offsetof(SessionHeader, layout_version) == 44);
static_assert(offsetof(SessionHeader, state) == 128);
static_assert(offsetof(SessionHeader, daemon_sleeping) == 384);
static_assert(offsetof(SessionHeader, progress) == 512);
static_assert(offsetof(SessionHeader, traces) == 640);
static_assert(sizeof(SessionHeader) == 4096);

constexpr std::size_t session_bytes(std::uint32_t lane_count) {
  return sizeof(SessionHeader) + lane_count * kLaneBytes;
}

}  // namespace simm::ipc
