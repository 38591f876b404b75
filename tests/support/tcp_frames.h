// Frames of the TCP transport as a peer that the test plays writes them, right or wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/transport/tcp/frame_codec.h"

namespace support {

// `header` with the length of the body and, where its kind has one and it names none, the digest.
inline std::vector<std::byte> tcp_frame(simm::transport::wire::FrameHeader header,
                                        const std::vector<std::byte>& body = {}) {
  using simm::transport::wire::FrameKind;
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  const auto kind = static_cast<FrameKind>(header.kind);
  const bool has_digest =
      kind == FrameKind::request || kind == FrameKind::pull || kind == FrameKind::reply;
  if (has_digest && header.digest == 0) {
    header.digest = simm::base::payload_digest(body.data(), body.size());
  }
  std::vector<std::byte> bytes(sizeof header);
  simm::transport::FrameSeal plain;
  simm::transport::seal_header(header, plain, bytes.data());
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

// The owner asks for pages of the first request of slot 0.
inline std::vector<std::byte> tcp_pull(const std::vector<std::uint16_t>& pages) {
  std::vector<std::byte> body(pages.size() * sizeof pages[0]);
  std::memcpy(body.data(), pages.data(), body.size());
  return tcp_frame(simm::transport::frame_header(simm::transport::wire::FrameKind::pull, 0, 1),
                   body);
}

// The owner answers the first request of slot 0.
inline std::vector<std::byte> tcp_reply(const std::vector<simm::transport::PageReply>& pages) {
  std::vector<std::byte> body(pages.size() * sizeof(simm::transport::wire::ReplyEntry));
  simm::transport::encode_reply(pages, body.data());
  return tcp_frame(simm::transport::frame_header(simm::transport::wire::FrameKind::reply, 0, 1),
                   body);
}

}  // namespace support
