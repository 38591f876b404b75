// The bytes of a data connection between two daemons. This header is the format; TCP.md has its
// tables. A connection is a stream of frames: a fixed header, then `body_bytes` bytes.
// Little-endian words only, every offset asserted.
//
// Trust: the peer is authenticated before the first frame, and is still never believed: every
// field is checked before it is used, and a frame that fails a check closes its connection and does
// nothing else. The check words find damage that the checksum of TCP let through; they keep nobody
// out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/transport/request_wire.h"
#include "ipc/layout.h"

namespace simm::transport::wire {

inline constexpr std::uint32_t kMagic = 0x31544d53;  // "SMT1"

// Limits of the format.
inline constexpr std::uint32_t kSlotsMax = 1024;             // requests on one connection
inline constexpr std::uint32_t kDataBytesMax = 1024 * 1024;  // payload of one data frame

enum class FrameKind : std::uint8_t {
  request = 1,  // to the server: RequestBody, entries, keys, inline payloads
  cancel = 2,   // to the server: stop issuing moves of this request, then answer
  failed = 3,   // to the server: a page it pulled will not come; `status` says why
  ping = 4,     // to the server
  data = 5,     // both ways: a part of one page's payload
  pull = 6,     // to the requester: std::uint16_t page numbers; send these payloads
  reply = 7,    // to the requester: ReplyEntry for each page; the request is over
  pong = 8,     // to the requester
  roster = 9,   // to the server: RosterBody; which links of this requester are in use
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

inline constexpr std::uint32_t kPullBodyBytesMax =
    ipc::kPagesPerSubmissionMax * sizeof(std::uint16_t);

}  // namespace simm::transport::wire
