#include "ipc/key_news.h"

#include <cstring>
#include <string>

// Of the header alone: libsimm has no library of hashes beside it.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace simm::ipc {
namespace {

// The fields of one, in their order. Both ends are of one machine, so of one byte order.
struct PackedKeyNews {
  std::uint64_t low;
  std::uint64_t high;
  std::uint64_t bytes;
  std::uint8_t kind;
  std::uint8_t zero[7];
};
static_assert(sizeof(PackedKeyNews) == kKeyNewsBytes);

}  // namespace

KeyToken key_token(std::uint64_t salt, std::string_view key) noexcept {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(key.data(), key.size(), salt);
  return {hash.low64, hash.high64};
}

std::vector<std::byte> pack_key_news(std::span<const KeyNews> news) {
  std::vector<std::byte> bytes(news.size() * kKeyNewsBytes);
  std::byte* to = bytes.data();
  for (const KeyNews& one : news) {
    const PackedKeyNews packed{
        one.token.low, one.token.high, one.bytes, static_cast<std::uint8_t>(one.kind), {}};
    // SAFETY: `bytes` has room for news.size() of them.
    std::memcpy(to, &packed, kKeyNewsBytes);
    to += kKeyNewsBytes;
  }
  return bytes;
}

Expected<std::vector<KeyNews>> unpack_key_news(std::span<const std::byte> bytes) {
  if (bytes.size() % kKeyNewsBytes != 0 || bytes.size() / kKeyNewsBytes > kKeyNewsMax) {
    return Error{Status::invalid_argument,
                 "events of keys in " + std::to_string(bytes.size()) + " bytes"};
  }
  std::vector<KeyNews> news;
  news.reserve(bytes.size() / kKeyNewsBytes);
  for (std::size_t at = 0; at < bytes.size(); at += kKeyNewsBytes) {
    PackedKeyNews packed;
    // SAFETY: a whole number of them, so one is there.
    std::memcpy(&packed, bytes.data() + at, kKeyNewsBytes);
    if (packed.kind >= kKeyNewsKindCount) {
      return Error{Status::incompatible, "event of a key of kind " + std::to_string(packed.kind)};
    }
    news.push_back(
        {{packed.low, packed.high}, packed.bytes, static_cast<KeyNewsKind>(packed.kind)});
  }
  return news;
}

}  // namespace simm::ipc
