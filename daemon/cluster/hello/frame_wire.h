// Frames: how messages travel on an authenticated control connection. Little-endian; the table and
// the reasons are in HELLO.md.
//
//   FrameHeader | payload (1 .. kFramePayloadBytesMax) | tag
//
// The tag is the first 16 bytes of HMAC-SHA-256 over header and payload with the key of this
// direction of this connection. Thread: any.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace simm::cluster {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

inline constexpr std::uint32_t kFrameMagic = 0x46434d53;  // "SMCF"
inline constexpr std::size_t kFrameTagBytes = 16;
inline constexpr std::size_t kFramePayloadBytesMax = 1 << 20;

struct FrameHeader {
  std::uint32_t magic;
  std::uint32_t payload_bytes;
  std::uint64_t sequence;  // of this direction: 0, 1, 2, ...
};
static_assert(offsetof(FrameHeader, payload_bytes) == 4 && offsetof(FrameHeader, sequence) == 8);
static_assert(sizeof(FrameHeader) == 16 && std::has_unique_object_representations_v<FrameHeader>);

inline constexpr std::size_t kFrameOverheadBytes = sizeof(FrameHeader) + kFrameTagBytes;

}  // namespace simm::cluster
