// FrameSealer: makes the frames of one direction of one connection: numbered, tagged with its key.
// Owned by one end of a connection; one for each connection, because a key numbers its frames once.
// Thread: its owner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/cluster/hello/frame_wire.h"
#include "daemon/cluster/hello/secret.h"

namespace simm::cluster {

class FrameSealer {
public:
  explicit FrameSealer(const Mac& key) noexcept : key_(key) {}

  // The bytes to send. invalid_argument for a payload that is empty or larger than a frame holds;
  // no number is used up then.
  Expected<std::vector<std::byte>> seal(std::span<const std::byte> payload);

private:
  const MacKey key_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace simm::cluster
