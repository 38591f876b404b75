#include "daemon/base/space_saving.h"

#include <algorithm>

namespace simm::base {
namespace {

constexpr std::uint32_t kTotalMax = 1u << 31;  // above it everything is halved

std::uint32_t tag_of(const KeyHash& hash) noexcept {
  return static_cast<std::uint32_t>(hash.low);
}

}  // namespace

// kHotKeysCounted: it has no entry.
std::uint32_t SpaceSaving::find(const KeyHash& hash) const noexcept {
  const std::uint32_t tag = tag_of(hash);
  for (std::uint32_t i = 0; i < kHotKeysCounted; ++i) {
    if (tags_[i] == tag && counts_[i] > 0 && keys_[i].hash == hash) return i;
  }
  return kHotKeysCounted;
}

std::uint32_t SpaceSaving::find_least() const noexcept {
  std::uint32_t least = 0;
  for (std::uint32_t i = 1; i < kHotKeysCounted; ++i) {
    if (counts_[i] < counts_[least]) least = i;
  }
  return least;
}

void SpaceSaving::add(const HotKey& key, std::uint32_t weight) noexcept {
  const std::uint32_t units = std::min(weight, kUseWeightMax) * kScale;
  if (total_ > kTotalMax) halve();
  total_ += units;
  std::uint32_t at = find(key.hash);
  if (at == kHotKeysCounted) {
    at = find_least();
    tags_[at] = tag_of(key.hash);
    keys_[at] = key;
    errors_[at] = counts_[at];
  }
  counts_[at] += units;
}

void SpaceSaving::halve() noexcept {
  total_ = (total_ + 1) / 2;
  for (std::uint32_t i = 0; i < kHotKeysCounted; ++i) {
    counts_[i] /= 2;
    errors_[i] /= 2;
  }
}

std::uint32_t SpaceSaving::copy_to(std::span<Entry, kHotKeysCounted> to) const noexcept {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < kHotKeysCounted; ++i) {
    if (counts_[i] > 0) to[count++] = {keys_[i], counts_[i], errors_[i]};
  }
  return count;
}

}  // namespace simm::base
