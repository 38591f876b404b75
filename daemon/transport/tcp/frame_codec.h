// frame_codec: between frames (wire.h) and the values of the Transport seam. Functions: bytes in,
// values out; of a FrameSeal, the next number is used up. Nothing else is touched. A decoder proves
// every length and range before it uses it and answers false for anything that this side would not
// have sent. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/transport/frame_seal.h"
#include "daemon/transport/request_codec.h"
#include "daemon/transport/tcp/wire.h"

namespace simm::transport {

// A header with the magic, the kind and the name of a request filled in, all else zero.
[[nodiscard]] wire::FrameHeader frame_header(wire::FrameKind kind, std::uint32_t slot,
                                             std::uint32_t use) noexcept;

// Computes the check word and writes the header to `to` (sizeof(FrameHeader) bytes). Frames are
// sealed in the order in which they are sent.
void seal_header(wire::FrameHeader header, FrameSeal& seal, std::byte* to) noexcept;
// Reads one from as many bytes. False: no header of ours, not the next one, or damaged, or a length
// or field that its kind does not have.
[[nodiscard]] bool open_header(const std::byte* from, FrameSeal& seal,
                               wire::FrameHeader& header) noexcept;

// ---- pull ----

// `pages` has as many entries as the body; each must be below `page_count`.
[[nodiscard]] bool decode_pull(std::span<const std::byte> body, std::uint16_t page_count,
                               std::span<std::uint16_t> pages) noexcept;

}  // namespace simm::transport
