// FrameOpener: turns the bytes of one direction of one connection back into messages. A frame that
// was changed, left out, repeated, reordered or made by somebody else is the end. Every call after
// it says corrupt, and the connection is to be closed. Grows with the bytes that came, not with the
// length that a header claims; never beyond one frame.
// Owned by one end of a connection. Thread: its owner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/cluster/hello/frame_wire.h"
#include "daemon/cluster/hello/secret.h"

namespace simm::cluster {

class FrameOpener {
public:
  explicit FrameOpener(const Mac& key) noexcept : key_(key) {}

  // The payload of the whole frame that `bytes` begins with, which stays where it is; `bytes` then
  // begins behind that frame. Empty: feed() says what there is instead.
  [[nodiscard]] std::span<const std::byte> open_in_place(std::span<const std::byte>& bytes);
  // How many bytes are missing to the end of the header or of the frame. 0: a frame is complete
  // (take it), or the connection is broken.
  [[nodiscard]] std::size_t wanted() const noexcept;
  // At most wanted() bytes. corrupt: close the connection.
  Status feed(std::span<const std::byte> bytes);
  // The payload of the frame that is complete, once.
  std::optional<std::vector<std::byte>> take();

private:
  [[nodiscard]] std::size_t payload_bytes() const noexcept;

  [[nodiscard]] bool is_next(const FrameHeader& header) const noexcept;
  // Of a frame that is complete; it uses the frame's number up.
  [[nodiscard]] bool check_tag(std::span<const std::byte> frame) noexcept;

  const MacKey key_;
  std::uint64_t next_sequence_ = 0;
  bool is_complete_ = false;
  bool is_broken_ = false;
  std::vector<std::byte> frame_;
};

}  // namespace simm::cluster
