#include "daemon/cluster/hello/frame_opener.h"

#include <cstring>
#include <utility>

#include "simm/check.h"

namespace simm::cluster {

std::size_t FrameOpener::payload_bytes() const noexcept {
  FrameHeader header;
  std::memcpy(&header, frame_.data(), sizeof(header));
  return header.payload_bytes;
}

std::size_t FrameOpener::wanted() const noexcept {
  if (is_broken_ || is_complete_) return 0;
  if (frame_.size() < sizeof(FrameHeader)) return sizeof(FrameHeader) - frame_.size();
  // The header was checked when it was complete, so its length is one of ours.
  return payload_bytes() + kFrameOverheadBytes - frame_.size();
}

bool FrameOpener::is_next(const FrameHeader& header) const noexcept {
  return header.magic == kFrameMagic && header.payload_bytes != 0 &&
         header.payload_bytes <= kFramePayloadBytesMax && header.sequence == next_sequence_;
}

bool FrameOpener::check_tag(std::span<const std::byte> frame) noexcept {
  ++next_sequence_;
  const std::size_t tagged = frame.size() - kFrameTagBytes;
  const Mac mac = key_.mac_of({frame.first(tagged)});
  return same_bytes(frame.subspan(tagged), std::span(mac).first(kFrameTagBytes));
}

std::span<const std::byte> FrameOpener::open_in_place(std::span<const std::byte>& bytes) {
  if (is_broken_ || !frame_.empty() || bytes.size() < sizeof(FrameHeader)) return {};
  FrameHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (!is_next(header)) return {};
  if (bytes.size() - sizeof(FrameHeader) < header.payload_bytes + kFrameTagBytes) return {};
  const auto frame = bytes.first(header.payload_bytes + kFrameOverheadBytes);
  is_broken_ = !check_tag(frame);
  if (is_broken_) return {};
  bytes = bytes.subspan(frame.size());
  return frame.subspan(sizeof(FrameHeader), header.payload_bytes);
}

Status FrameOpener::feed(std::span<const std::byte> bytes) {
  if (is_broken_) return Status::corrupt;
  SIMM_CHECK(bytes.size() <= wanted());
  const bool had_header = frame_.size() >= sizeof(FrameHeader);
  frame_.insert(frame_.end(), bytes.begin(), bytes.end());
  if (frame_.size() < sizeof(FrameHeader)) return Status::ok;
  if (!had_header) {
    FrameHeader header;
    std::memcpy(&header, frame_.data(), sizeof(header));
    // The number is checked before its bytes are waited for; the tag makes it binding.
    is_broken_ = !is_next(header);
  } else if (wanted() == 0) {
    is_complete_ = check_tag(frame_);
    is_broken_ = !is_complete_;
  }
  return is_broken_ ? Status::corrupt : Status::ok;
}

std::optional<std::vector<std::byte>> FrameOpener::take() {
  if (!std::exchange(is_complete_, false)) return std::nullopt;
  std::vector<std::byte> frame = std::exchange(frame_, {});
  frame.resize(frame.size() - kFrameTagBytes);
  frame.erase(frame.begin(), frame.begin() + sizeof(FrameHeader));
  return frame;
}

}  // namespace simm::cluster
