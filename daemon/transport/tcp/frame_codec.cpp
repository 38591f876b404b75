#include "daemon/transport/tcp/frame_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "daemon/base/hash.h"
#include "simm/check.h"

namespace simm::transport {

using wire::FrameHeader;
using wire::FrameKind;

namespace {

constexpr std::size_t kCheckedBytes = offsetof(FrameHeader, check);

std::uint64_t check_of(const FrameHeader& header, FrameSeal& seal) noexcept {
  // Who can change payload on the way needs no frames of his own for that: a tag would gain
  // nothing.
  const bool has_tag = seal.has_key() && static_cast<FrameKind>(header.kind) != FrameKind::data;
  if (!has_tag) return base::payload_digest(&header, kCheckedBytes);
  std::array<std::uint64_t, kCheckedBytes / sizeof(std::uint64_t) + 1> words;
  static_assert(sizeof words == kCheckedBytes + sizeof(std::uint64_t));
  std::memcpy(words.data(), &header, kCheckedBytes);
  return seal.next_tag(words);
}

bool names_request(const FrameHeader& header) noexcept {
  return header.slot < wire::kSlotsMax && header.use != 0;
}

bool names_page(const FrameHeader& header) noexcept {
  return header.page < ipc::kPagesPerSubmissionMax;
}

// What a body of that kind may measure, and the fields that only some kinds have.
bool fields_fit(const FrameHeader& header) noexcept {
  const std::uint32_t bytes = header.body_bytes;
  const auto kind = static_cast<FrameKind>(header.kind);
  if (kind != FrameKind::data && (header.flags != 0 || header.offset != 0)) return false;
  if (kind != FrameKind::failed && header.status != 0) return false;
  switch (kind) {
    case FrameKind::request:
      return names_request(header) && bytes > sizeof(wire::RequestBody) &&
             bytes <= wire::kRequestBodyBytesMax;
    case FrameKind::cancel:
      return names_request(header) && bytes == 0;
    case FrameKind::failed:
      return names_request(header) && names_page(header) && bytes == 0 &&
             is_known_status(header.status) && header.status != 0;
    case FrameKind::data:
      return names_request(header) && names_page(header) && bytes <= wire::kDataBytesMax &&
             (header.flags & ~wire::kFlagLast) == 0 &&
             (bytes > 0 || header.flags == wire::kFlagLast);
    case FrameKind::pull:
      return names_request(header) && bytes > 0 && bytes <= wire::kPullBodyBytesMax &&
             bytes % sizeof(std::uint16_t) == 0;
    case FrameKind::reply:
      return names_request(header) && bytes > 0 && bytes <= wire::kReplyBodyBytesMax &&
             bytes % sizeof(wire::ReplyEntry) == 0;
    case FrameKind::ping:
    case FrameKind::pong:
      return header.slot == 0 && header.use == 0 && bytes == 0;
    case FrameKind::roster:
      return header.slot == 0 && header.use == 0 && bytes == sizeof(wire::RosterBody);
  }
  return false;
}

}  // namespace

FrameHeader frame_header(FrameKind kind, std::uint32_t slot, std::uint32_t use) noexcept {
  FrameHeader header{};
  header.magic = wire::kMagic;
  header.kind = static_cast<std::uint8_t>(kind);
  header.slot = slot;
  header.use = use;
  return header;
}

void seal_header(FrameHeader header, FrameSeal& seal, std::byte* to) noexcept {
  header.check = check_of(header, seal);
  std::memcpy(to, &header, sizeof header);
}

bool open_header(const std::byte* from, FrameSeal& seal, FrameHeader& header) noexcept {
  std::memcpy(&header, from, sizeof header);
  if (header.magic != wire::kMagic || header.check != check_of(header, seal)) return false;
  if (header.kind == 0 || header.kind > wire::kFrameKindMax) return false;
  return fields_fit(header);
}

// ---- pull ----

bool decode_pull(std::span<const std::byte> body, std::uint16_t page_count,
                 std::span<std::uint16_t> pages) noexcept {
  if (body.size() != pages.size_bytes()) return false;
  std::memcpy(pages.data(), body.data(), body.size());
  for (const std::uint16_t page : pages) {
    if (page >= page_count) return false;
  }
  return true;
}

}  // namespace simm::transport
