// request_codec: between the bodies of request_wire.h and the values of the Transport seam. Pure
// functions: bytes in, values out, nothing else is touched. A decoder proves every length and range
// before it uses it and answers false for anything that this side would not have sent.
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/transport/link_roster.h"
#include "daemon/transport/request.h"
#include "daemon/transport/request_wire.h"

namespace simm::transport {

// ---- request ----

// Bytes of the body without inline payloads.
[[nodiscard]] std::uint32_t request_body_bytes(const RequestHeader& header,
                                               std::span<const PageRequest> pages) noexcept;

// Writes the body up to the inline payloads, `request_body_bytes` long. inline_pages[i] != 0: page
// i's payload will follow (in page order). A trace is left out for ends that do not know one.
void encode_request(const RequestHeader& header, std::uint64_t remaining_ns,
                    std::span<const PageRequest> pages, std::span<const std::uint8_t> inline_pages,
                    std::byte* to) noexcept;

struct DecodedRequest {
  RequestHeader header;  // deadline_ns: still the remaining time; wire::kNoDeadline: none
  std::uint16_t page_count = 0;
};

// `pages` has room for ipc::kPagesPerSubmissionMax entries; keys point into `body`. inline_at[i] is
// the offset in `body` of page i's payload, or 0. Both are defined for page_count pages.
[[nodiscard]] bool decode_request(std::span<const std::byte> body, DecodedRequest& request,
                                  std::span<PageRequest> pages,
                                  std::span<std::uint32_t> inline_at) noexcept;

// ---- roster ----

// Writes sizeof(wire::RosterBody) bytes.
void encode_roster(const LinkRoster& roster, std::byte* to) noexcept;
[[nodiscard]] bool decode_roster(const wire::RosterBody& body, LinkRoster& roster) noexcept;

// ---- reply ----

void encode_reply(std::span<const PageReply> replies, std::byte* to) noexcept;
// `replies` has as many entries as the request has pages; the body must have exactly as many.
[[nodiscard]] bool decode_reply(std::span<const std::byte> body,
                                std::span<PageReply> replies) noexcept;

}  // namespace simm::transport
