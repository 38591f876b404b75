// message_codec: between messages (message_wire.h) and the values of the Transport seam. Pure
// functions; a decoder proves every length and range before it uses it and answers false for
// anything that this side would not have sent. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/transport/frame_seal.h"
#include "daemon/transport/rdma/message_wire.h"
#include "daemon/transport/request.h"

namespace simm::transport {

// With the magic, the kind and the name of a request filled in, all else zero.
[[nodiscard]] wire::Envelope make_envelope(wire::MessageKind kind, std::uint32_t slot,
                                           std::uint32_t use) noexcept;

// `buffer` has room for the envelope with the part (envelope.part_bytes) behind it already: writes
// the envelope and its check word. Parts are sealed in the order in which they are sent.
void seal_envelope(wire::Envelope envelope, FrameSeal& seal, std::byte* buffer) noexcept;
// Of a part that came, with its envelope. False: not ours, not the next one, or damaged, or a
// length or field that its kind does not have.
[[nodiscard]] bool open_envelope(std::span<const std::byte> message, FrameSeal& seal,
                                 wire::Envelope& envelope) noexcept;

// ---- targets ----

// Where the server finds each page: indexes into the targets of its request.
struct PageTargets {
  std::uint16_t first = 0;
  std::uint16_t count = 0;
};

// `bytes` are the targets of a request whose pages are decoded. False unless every page that has a
// slice and is not inline (inline_at[i] == 0) has targets of just its length, in order, and no
// other page has any; the opcode is get or put where there are some. A page of a put without
// targets, though it has a slice, is one that the requester could not read.
[[nodiscard]] bool decode_targets(std::span<const std::byte> bytes, ipc::Opcode opcode,
                                  std::span<const PageRequest> pages,
                                  std::span<const std::uint32_t> inline_at,
                                  std::span<wire::RemoteTarget> targets,
                                  std::span<PageTargets> of_page) noexcept;

// ---- stripe ----

// False: no request of ours is striped like that.
[[nodiscard]] bool decode_stripe(std::span<const std::byte> body,
                                 wire::StripeBody& stripe) noexcept;

// ---- reply ----

// inline_at[i]: where in `payloads` the payload of page i is, 1 + its offset; 0: it has none.
// Writes the body, at most kReplyMessageBytesMax; how long it is.
[[nodiscard]] std::uint32_t encode_answers(std::span<const PageReply> replies,
                                           std::span<const std::uint32_t> inline_at,
                                           const std::byte* payloads, std::byte* to) noexcept;
// `replies` has as many entries as the request has pages. inline_at[i] becomes the offset in `body`
// of a payload, all of replies[i].bytes long, or 0.
[[nodiscard]] bool decode_answers(std::span<const std::byte> body, std::span<PageReply> replies,
                                  std::span<std::uint32_t> inline_at) noexcept;

}  // namespace simm::transport
