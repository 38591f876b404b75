#include "tests/sim/forger.h"

#include <algorithm>
#include <cstring>

#include "simm/check.h"

namespace simm::sim {

void Forger::follow(Stream& stream, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (stream.body_left > 0) {
      const std::size_t skipped = std::min<std::size_t>(bytes.size(), stream.body_left);
      stream.body_left -= skipped;
      bytes = bytes.subspan(skipped);
      continue;
    }
    const std::size_t taken = std::min(bytes.size(), stream.header.size() - stream.header_bytes);
    // SAFETY: taken is no more than either side has.
    std::memcpy(stream.header.data() + stream.header_bytes, bytes.data(), taken);
    stream.header_bytes += taken;
    bytes = bytes.subspan(taken);
    if (stream.header_bytes < stream.header.size()) return;
    transport::wire::FrameHeader header;
    std::memcpy(&header, stream.header.data(), sizeof header);
    SIMM_CHECK(header.magic == transport::wire::kMagic);
    stream.header_bytes = 0;
    stream.body_left = header.body_bytes;
    using transport::wire::FrameKind;
    stream.has_payload |= static_cast<FrameKind>(header.kind) == FrameKind::data;
  }
}

Forger::Bytes Forger::hear(std::uint64_t connection, std::size_t end,
                           std::span<const std::byte> bytes, std::uint32_t per_mille, Dice& dice) {
  Stream& stream = streams_[{connection, end}];
  const bool begins = stream.is_between_frames();
  if (begins) stream.has_payload = false;
  follow(stream, bytes);
  if (!stream.is_between_frames()) return {};
  std::vector<Bytes>& heard = heard_[end];
  if (begins && !stream.has_payload) {
    if (heard.size() == kHeardMax) heard.erase(heard.begin());
    heard.emplace_back(bytes.begin(), bytes.end());
  }
  if (heard.empty() || !dice.per_mille(per_mille)) return {};
  return heard[dice.between(0, heard.size() - 1)];
}

void Forger::forget(std::uint64_t connection) {
  for (const std::size_t end : {std::size_t{0}, std::size_t{1}}) streams_.erase({connection, end});
}

}  // namespace simm::sim
