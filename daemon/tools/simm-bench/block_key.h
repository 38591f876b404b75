// BlockKey: a key as an engine makes it, a digest in hex digits and a suffix, out of a number; a
// group of its own. Made again and again in place: nothing is allocated. Thread: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/hash.h"
#include "daemon/store/eviction/object_key.h"

namespace simm::bench {

class BlockKey {
public:
  static constexpr std::size_t kBytes = 66;

  BlockKey() { set(0); }
  explicit BlockKey(std::uint64_t number) { set(number); }
  BlockKey(const BlockKey&) = delete;
  BlockKey& operator=(const BlockKey&) = delete;

  void set(std::uint64_t number) {
    static const base::KeyHasher s_hasher(1);
    constexpr char kDigits[] = "0123456789abcdef";
    std::uint64_t seed = number;
    for (std::size_t at = 0; at < kBytes - 2; at += 16) {
      std::uint64_t word = base::splitmix64(seed);
      for (std::size_t i = 0; i < 16; ++i, word >>= 4) bytes_[at + i] = kDigits[word & 15];
    }
    bytes_[kBytes - 2] = '_';
    bytes_[kBytes - 1] = 'k';
    key_.bytes = {bytes_.data(), bytes_.size()};
    key_.hash = s_hasher(key_.bytes);
    key_.group = key_.hash.high;
  }
  [[nodiscard]] const store::ObjectKey& key() const noexcept { return key_; }

private:
  std::array<char, kBytes> bytes_;
  store::ObjectKey key_;
};

}  // namespace simm::bench
