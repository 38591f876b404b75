// The bytes of a data connection between two daemons. This header is the format; TCP.md has its
// tables. A connection is a stream of frames: a fixed header, then `body_bytes` bytes.
// Little-endian words only, every offset asserted.
//
// Trust: the peer is authenticated before the first frame, and is still never believed: every
// field is checked before it is used, and a frame that fails a check closes its connection and does
// nothing else. The check words find damage that the checksum of TCP let through; they keep nobody
// out.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ipc/layout.h"

namespace simm::transport::wire {

static_assert(std::endian::native == std::endian::little, "frames are copied, not converted");

inline constexpr std::uint32_t kMagic = 0x31544d53;  // "SMT1"

// Limits of the format.
inline constexpr std::uint32_t kSlotsMax = 1024;             // requests on one connection
inline constexpr std::uint32_t kDataBytesMax = 1024 * 1024;  // payload of one data frame
inline constexpr std::uint32_t kInlineBytesMax = 64 * 1024;  // payload inside one request
inline constexpr std::uint32_t kRosterLinksMax = 8;          // the most that can be configured

enum class FrameKind : std::uint8_t {
  request = 1,  // to the server: RequestBody, entries, keys, inline payloads
  cancel = 2,   // to the server: stop issuing moves of this request, then answer
  failed = 3,   // to the server: a page it pulled will not come; `status` says why
  ping = 4,     // to the server
  data = 5,     // both ways: a part of one page's payload
  pull = 6,     // to the asker: std::uint16_t page numbers; send these payloads
  reply = 7,    // to the asker: ReplyEntry for each page; the request is over
  pong = 8,     // to the asker
  roster = 9,   // to the server: RosterBody; which links of this asker are in use
};
inline constexpr std::uint8_t kFrameKindMax = 9;

inline constexpr std::uint8_t kFlagLast = 1;  // data: the page ends with this frame

struct FrameHeader {
  std::uint32_t magic;
  std::uint8_t kind;         // FrameKind
  std::uint8_t flags;        // kFlagLast; other bits zero
  std::uint16_t page;        // data, failed: which page of the request
  std::uint32_t body_bytes;  // behind this header
  std::uint32_t slot;        // of the request; zero in ping, pong and roster
  std::uint32_t use;         // tells the uses of the slot apart; zero in ping, pong and roster
  std::int32_t status;       // failed: simm::Status; else zero
  std::uint64_t offset;      // data: place of the body in the page, bytes; else zero
  std::uint64_t digest;  // data with kFlagLast: xxh3-64 of the whole page as sent; request, pull,
                         // reply, roster: xxh3-64 of the body; else zero
  std::uint64_t check;   // xxh3-64 of the 40 bytes before it
};
static_assert(sizeof(FrameHeader) == 48);
static_assert(offsetof(FrameHeader, kind) == 4);
static_assert(offsetof(FrameHeader, flags) == 5);
static_assert(offsetof(FrameHeader, page) == 6);
static_assert(offsetof(FrameHeader, body_bytes) == 8);
static_assert(offsetof(FrameHeader, slot) == 12);
static_assert(offsetof(FrameHeader, use) == 16);
static_assert(offsetof(FrameHeader, status) == 20);
static_assert(offsetof(FrameHeader, offset) == 24);
static_assert(offsetof(FrameHeader, digest) == 32);
static_assert(offsetof(FrameHeader, check) == 40);

// RequestBody::flags.
inline constexpr std::uint32_t kFlagExactSize = 1;
inline constexpr std::uint32_t kFlagRanged = 2;
inline constexpr std::uint32_t kFlagSharedRead = 4;
inline constexpr std::uint32_t kRequestFlagsKnown = 7;

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
  std::uint64_t trace_id;       // of an operation that its asker samples, else zero
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

struct PageEntry {
  std::uint64_t hash_low;
  std::uint64_t hash_high;
  std::uint64_t group;
  std::uint64_t slice_bytes;    // put: length of the object; get: room of the slice
  std::uint64_t object_offset;  // get: first byte wanted
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
  std::uint64_t asker;                   // random, the same on all links of one asker, not zero
  std::uint64_t statement;               // greater than every link's number so far
  std::uint64_t link;                    // the number of the link that this came over
  std::uint32_t count;                   // 1 .. kRosterLinksMax
  std::uint32_t reserved;                // zero
  std::uint64_t links[kRosterLinksMax];  // in use, `link` among them; zero behind `count`
};
static_assert(sizeof(RosterBody) == 96);
static_assert(offsetof(RosterBody, statement) == 8);
static_assert(offsetof(RosterBody, link) == 16);
static_assert(offsetof(RosterBody, count) == 24);
static_assert(offsetof(RosterBody, links) == 32);

inline constexpr std::uint32_t kRequestBodyBytesMax =
    sizeof(RequestBody) + ipc::kPagesPerSubmissionMax * (sizeof(PageEntry) + ipc::kKeyBytesMax) +
    kInlineBytesMax;
inline constexpr std::uint32_t kReplyBodyBytesMax =
    ipc::kPagesPerSubmissionMax * sizeof(ReplyEntry);
inline constexpr std::uint32_t kPullBodyBytesMax =
    ipc::kPagesPerSubmissionMax * sizeof(std::uint16_t);

}  // namespace simm::transport::wire
