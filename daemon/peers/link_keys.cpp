#include "daemon/peers/link_keys.h"

#include <array>
#include <cstring>

namespace simm::control {
namespace {

// Not the key itself: connections that make queue pairs use that one for frames of their own.
constexpr std::array<char, 16> kLabel = {"simm link frame"};

transport::FrameKey frame_key(const cluster::Mac& direction) noexcept {
  const cluster::Mac made = cluster::mac_of(direction, {std::as_bytes(std::span(kLabel))});
  std::array<std::uint64_t, 3> words;
  static_assert(sizeof words <= sizeof made);
  std::memcpy(words.data(), made.data(), sizeof words);
  return {{words[0], words[1]}, words[2] | 1};  // zero would be no key
}

}  // namespace

transport::LinkKeys link_keys(const cluster::HelloResult& hello,
                              const cluster::ClusterSecret& secret) noexcept {
  const bool has_tags = (hello.features & cluster::kFeatureFrameTags) != 0;
  if (!has_tags || !secret.is_secret()) return {};
  return {frame_key(hello.keys.send), frame_key(hello.keys.receive)};
}

}  // namespace simm::control
