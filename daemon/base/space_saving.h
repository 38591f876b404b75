// SpaceSaving: which keys of a stream are used most, in a fixed number of entries.
//
// Source: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in
// data streams" (ICDT 2005). A key that has an entry is counted there. Another key takes the entry
// with the least count, and that count is how much its own may be too high. So of a total N:
//  - an entry has at least the key's true count, and at most its `error` more;
//  - no error is above N / kHotKeysCounted, whatever the stream is and whoever made it;
//  - a key with more than N / kHotKeysCounted has an entry.
// The paper's list of buckets is not kept: kHotKeysCounted are few, and a look at all of them costs
// a fixed number of instructions.
//
// halve() makes everything count half: called at regular times it lets the past fade. Counts are
// rounded down to 1 / kScale then, so a bound may be missed by that much for each call.
//
// Plain numbers; no allocation. Thread: its owner's.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "daemon/base/ids.h"
#include "daemon/base/key_hash.h"

namespace simm::base {

// Whose key it is. The hash covers all three; tenant and namespace are for people.
struct HotKey {
  KeyHash hash;
  TenantId tenant;
  NamespaceId name_space;
};

class SpaceSaving {
public:
  static constexpr std::uint32_t kHotKeysCounted = 64;
  static constexpr std::uint32_t kScale = 256;             // of counts: a weight of 1
  static constexpr std::uint32_t kUseWeightMax = 1 << 12;  // a heavier use counts as this

  struct Entry {
    HotKey key;
    std::uint32_t count = 0;  // in 1 / kScale; 0: the entry is free
    std::uint32_t error = 0;  // by which that may be too high
  };

  // One use of the key.
  void add(const HotKey& key, std::uint32_t weight) noexcept;
  void halve() noexcept;

  // In 1 / kScale, of all keys, those without an entry too.
  [[nodiscard]] std::uint32_t total() const noexcept { return total_; }
  // Those in use, in no order.
  [[nodiscard]] std::uint32_t copy_to(std::span<Entry, kHotKeysCounted> to) const noexcept;
  // Calls do(entry) for each one that has at least one part in `parts` of the total for certain.
  template <typename Do>
  void each_above(std::uint32_t parts, Do&& what) const noexcept {
    const std::uint32_t least = total_ / parts;
    for (std::uint32_t i = 0; i < kHotKeysCounted; ++i) {
      if (counts_[i] > errors_[i] && counts_[i] - errors_[i] >= least) what(keys_[i]);
    }
  }

private:
  [[nodiscard]] std::uint32_t find(const KeyHash& hash) const noexcept;
  [[nodiscard]] std::uint32_t find_least() const noexcept;

  // Apart, so that a search reads few cache lines.
  std::array<std::uint32_t, kHotKeysCounted> tags_{};  // low bits of the hashes
  std::array<std::uint32_t, kHotKeysCounted> counts_{};
  std::array<std::uint32_t, kHotKeysCounted> errors_{};
  std::array<HotKey, kHotKeysCounted> keys_{};
  std::uint32_t total_ = 0;
};

}  // namespace simm::base
