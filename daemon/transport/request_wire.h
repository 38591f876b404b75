// The bytes of requests, replies and rosters between two daemons: what the transports that cross a
// network have in common. Each of them has an envelope of its own around these bodies.
// Little-endian words only, every offset asserted; TCP.md has the tables.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ipc/layout.h"

namespace simm::transport::wire {

static_assert(std::endian::native == std::endian::little, "bodies are copied, not converted");

// Limits of the format.
inline constexpr std::uint32_t kInlineBytesMax = 64 * 1024;  // payload inside one request
inline constexpr std::uint32_t kRosterLinksMax = 24;         // of one requester to one shard

// RequestBody::flags.
inline constexpr std::uint32_t kFlagExactSize = 1;
inline constexpr std::uint32_t kFlagRanged = 2;
inline constexpr std::uint32_t kFlagSharedRead = 4;
// A put, or an exists (MovedNote): to an end that has said that it knows this.
inline constexpr std::uint32_t kFlagMoved = 8;
inline constexpr std::uint32_t kFlagTraced = 16;  // a TraceBody; to an end that has said the same
inline constexpr std::uint32_t kRequestFlagsKnown = 31;

inline constexpr std::uint64_t kNoDeadline = ~std::uint64_t{0};

struct RequestBody {
  std::uint16_t page_count;     // 1 .. ipc::kPagesPerSubmissionMax
  std::uint8_t opcode;          // ipc::Opcode, not noop
  std::uint8_t put_mode;        // ipc::PutMode
  std::uint32_t flags;          // kFlag*
  std::uint64_t tenant;         // base::TenantId
  std::uint64_t name_space;     // base::NamespaceId
  std::uint64_t epoch;          // of the map under which the owner was chosen
  std::uint64_t remaining_ns;   // until the deadline, when this was encoded; kNoDeadline: none
  std::uint32_t ttl_ms;         // put
  std::uint32_t lease_ms;       // exists, get
  std::uint32_t key_bytes;      // of all pages together
  std::uint32_t payload_bytes;  // inline payloads of all pages together
  std::uint64_t trace_id;       // of an operation that its requester samples, else zero
};
static_assert(sizeof(RequestBody) == 64);
static_assert(offsetof(RequestBody, opcode) == 2);
static_assert(offsetof(RequestBody, put_mode) == 3);
static_assert(offsetof(RequestBody, flags) == 4);
static_assert(offsetof(RequestBody, tenant) == 8);
static_assert(offsetof(RequestBody, name_space) == 16);
static_assert(offsetof(RequestBody, epoch) == 24);
static_assert(offsetof(RequestBody, remaining_ns) == 32);
static_assert(offsetof(RequestBody, ttl_ms) == 40);
static_assert(offsetof(RequestBody, lease_ms) == 44);
static_assert(offsetof(RequestBody, key_bytes) == 48);
static_assert(offsetof(RequestBody, payload_bytes) == 52);
static_assert(offsetof(RequestBody, trace_id) == 56);

// Directly behind the RequestBody where its flags say so: the trace that trace_id is a span of.
struct TraceBody {
  std::uint64_t trace_high;  // not both zero
  std::uint64_t trace_low;
};
static_assert(sizeof(TraceBody) == 16);
static_assert(offsetof(TraceBody, trace_low) == 8);

struct PageEntry {
  std::uint64_t hash_low;
  std::uint64_t hash_high;
  std::uint64_t group;
  std::uint64_t slice_bytes;    // put: length of the object; get: room of the slice
  std::uint64_t object_offset;  // get: first byte wanted; moved: PageRequest::digest
  std::uint32_t key_bytes;      // 1 .. ipc::kKeyBytesMax
  std::uint32_t depth;
  std::uint32_t payload_bytes;  // put: all of the page (slice_bytes) when it is inline, else zero
  std::uint32_t reserved;       // zero
};
static_assert(sizeof(PageEntry) == 56);
static_assert(offsetof(PageEntry, hash_high) == 8);
static_assert(offsetof(PageEntry, group) == 16);
static_assert(offsetof(PageEntry, slice_bytes) == 24);
static_assert(offsetof(PageEntry, object_offset) == 32);
static_assert(offsetof(PageEntry, key_bytes) == 40);
static_assert(offsetof(PageEntry, depth) == 44);
static_assert(offsetof(PageEntry, payload_bytes) == 48);
static_assert(offsetof(PageEntry, reserved) == 52);

struct ReplyEntry {
  std::int32_t status;     // simm::Status
  std::uint32_t reserved;  // zero
  std::uint64_t bytes;     // get: bytes in the slice; put, exists: the object's length
};
static_assert(sizeof(ReplyEntry) == 16);
static_assert(offsetof(ReplyEntry, bytes) == 8);

struct RosterBody {
  std::uint64_t requester;               // random, the same on all links of one requester, not zero
  std::uint64_t statement;               // greater than every link's number so far
  std::uint64_t link;                    // the number of the link that this came over
  std::uint32_t count;                   // 1 .. kRosterLinksMax
  std::uint32_t reserved;                // zero
  std::uint64_t links[kRosterLinksMax];  // in use, `link` among them; zero behind `count`
};
static_assert(sizeof(RosterBody) == 224);
static_assert(offsetof(RosterBody, statement) == 8);
static_assert(offsetof(RosterBody, link) == 16);
static_assert(offsetof(RosterBody, count) == 24);
static_assert(offsetof(RosterBody, links) == 32);

inline constexpr std::uint32_t kRequestBodyBytesMax =
    sizeof(RequestBody) + sizeof(TraceBody) +
    ipc::kPagesPerSubmissionMax * (sizeof(PageEntry) + ipc::kKeyBytesMax) + kInlineBytesMax;
inline constexpr std::uint32_t kReplyBodyBytesMax =
    ipc::kPagesPerSubmissionMax * sizeof(ReplyEntry);

}  // namespace simm::transport::wire
