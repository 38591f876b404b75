// The bytes of messages between two daemons on a queue pair. This header and remote_target.h are
// the format; RDMA.md has its tables. A message is sent in parts, in order, each with an envelope
// before it. Little-endian words only, every offset asserted.
//
// Trust: the peer is authenticated before the first message, and is still never believed: a part
// that fails a check ends its link and does nothing else. The check words find damage that the
// network's own checksums let through; they keep nobody out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/transport/rdma/rdma_config.h"
#include "daemon/transport/rdma/registration/remote_target.h"
#include "daemon/transport/request_wire.h"

namespace simm::transport::wire {

inline constexpr std::uint32_t kRdmaMagic = 0x31524d53;  // "SMR1"
inline constexpr std::uint32_t kRdmaSlotsMax = 1024;     // requests on one link

enum class MessageKind : std::uint8_t {
  request = 1,  // to the server: RemoteTargets, then what request_wire.h says
  cancel = 2,   // to the server: start no more moves of this request, then answer
  ping = 3,     // to the server; its body is empty, or of kPartBytesMax: a long one
  roster = 4,   // to the server: RosterBody
  reply =
      5,  // to the requester: PageAnswer for each page, then inline payloads; the request is over
  pong = 6,    // to the requester; as long as what it answers
  credit = 7,  // both ways: only what every envelope says, how much was received
  stripe = 8,  // to the server: StripeBody; the request with this slot and use, which follows
};
inline constexpr std::uint8_t kMessageKindMax = 8;

struct Envelope {
  std::uint64_t check;  // xxh3-64 of the rest of the envelope and the part behind it
  std::uint32_t magic;
  std::uint8_t kind;         // MessageKind
  std::uint8_t reserved;     // zero
  std::uint16_t targets;     // request: RemoteTargets at the start of the body; else zero
  std::uint32_t slot;        // of the request; zero in ping, pong, roster and credit
  std::uint32_t use;         // tells the uses of the slot apart; likewise zero
  std::uint32_t received;    // parts that the sender took from this link so far, and wraps
  std::uint32_t body_bytes;  // of the whole message
  std::uint32_t offset;      // of this part in the body
  std::uint32_t part_bytes;  // behind this envelope
};
static_assert(sizeof(Envelope) == 40);
static_assert(offsetof(Envelope, magic) == 8);
static_assert(offsetof(Envelope, kind) == 12);
static_assert(offsetof(Envelope, reserved) == 13);
static_assert(offsetof(Envelope, targets) == 14);
static_assert(offsetof(Envelope, slot) == 16);
static_assert(offsetof(Envelope, use) == 20);
static_assert(offsetof(Envelope, received) == 24);
static_assert(offsetof(Envelope, body_bytes) == 28);
static_assert(offsetof(Envelope, offset) == 32);
static_assert(offsetof(Envelope, part_bytes) == 36);

inline constexpr std::uint32_t kPartBytesMax = kPartBufferBytes - sizeof(Envelope);

struct PageAnswer {
  std::int32_t status;         // simm::Status
  std::uint32_t inline_bytes;  // get: all of the page, behind the answers; or zero
  std::uint64_t bytes;         // get: bytes in the slice; put, exists: the object's length
};
static_assert(sizeof(PageAnswer) == 16);
static_assert(offsetof(PageAnswer, inline_bytes) == 4);
static_assert(offsetof(PageAnswer, bytes) == 8);

// What a request is of a longer one that is asked for over several links: its pages are slices of
// that one's pages in a row, the first of them from first_offset on, the last one up to where the
// next stripe begins.
struct StripeBody {
  std::uint64_t number;        // of the striped request, of its requester; not zero
  std::uint64_t first_offset;  // in the first page
  std::uint16_t first_page;    // of the striped request
  std::uint16_t page_count;    // of the striped request, 1 .. kStripedPagesMax
  std::uint8_t stripe;         // which one
  std::uint8_t stripe_count;   // 2 .. kRailsMax
  std::uint16_t reserved;      // zero
};
static_assert(sizeof(StripeBody) == 24);
static_assert(offsetof(StripeBody, first_offset) == 8);
static_assert(offsetof(StripeBody, first_page) == 16);
static_assert(offsetof(StripeBody, page_count) == 18);
static_assert(offsetof(StripeBody, stripe) == 20);
static_assert(offsetof(StripeBody, stripe_count) == 21);
static_assert(offsetof(StripeBody, reserved) == 22);

inline constexpr std::uint32_t kTargetsMax = kTargetsOfPageMax * ipc::kPagesPerSubmissionMax;
inline constexpr std::uint32_t kRequestMessageBytesMax = kTargetsMax * sizeof(RemoteTarget) +
                                                         kRequestBodyBytesMax - kInlineBytesMax +
                                                         kInlineMessageBytes;
inline constexpr std::uint32_t kReplyMessageBytesMax =
    ipc::kPagesPerSubmissionMax * sizeof(PageAnswer) + kInlineMessageBytes;

}  // namespace simm::transport::wire
