#include "daemon/cluster/hello/frame_sealer.h"

#include <string>

namespace simm::cluster {

Expected<std::vector<std::byte>> FrameSealer::seal(std::span<const std::byte> payload) {
  if (payload.empty() || payload.size() > kFramePayloadBytesMax) {
    return Error{Status::invalid_argument, "a message of " + std::to_string(payload.size()) +
                                               " bytes: a frame holds 1 to " +
                                               std::to_string(kFramePayloadBytesMax)};
  }
  const FrameHeader header{kFrameMagic, static_cast<std::uint32_t>(payload.size()),
                           next_sequence_++};
  const auto head = std::as_bytes(std::span(&header, std::size_t{1}));
  const Mac mac = key_.mac_of({head, payload});
  std::vector<std::byte> frame;
  frame.reserve(payload.size() + kFrameOverheadBytes);
  frame.insert(frame.end(), head.begin(), head.end());
  frame.insert(frame.end(), payload.begin(), payload.end());
  frame.insert(frame.end(), mac.begin(), mac.begin() + kFrameTagBytes);
  return frame;
}

}  // namespace simm::cluster
