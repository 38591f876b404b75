#include "daemon/server/hot_keys.h"

#include <algorithm>

namespace simm::server {
namespace {

base::HotKey hot_key_of(const transport::RequestHeader& header,
                        const transport::PageRequest& page) noexcept {
  return {page.hash, header.tenant, header.name_space};
}

void copy(const base::SpaceSaving& sketch, base::HotList& to) noexcept {
  to.count = sketch.copy_to(to.entries);
  to.total = sketch.total();
}

}  // namespace

// A linear congruential step (Knuth's constants for MMIX), stirred by the hash.
std::uint64_t HotKeys::draw(std::uint64_t mean, const base::KeyHash& hash) noexcept {
  draws_ = (draws_ ^ hash.low) * 6364136223846793005u + 1442695040888963407u;
  return 1 + ((draws_ >> 32) & (2 * mean - 1));
}

void HotKeys::sample_pages(const transport::RequestHeader& header,
                           std::span<const transport::PageRequest> pages) noexcept {
  std::uint64_t at = pages_left_ - 1;
  while (at < pages.size()) {
    const transport::PageRequest& page = pages[at];
    if (slots_.serves(header.epoch, page.group)) {
      requests_.add(hot_key_of(header, page), 1);
      has_changed_ = true;
    }
    at += draw(kPagesPerSample, page.hash);
  }
  pages_left_ = static_cast<std::uint32_t>(at - pages.size()) + 1;
}

void HotKeys::sample_bytes(const transport::RequestHeader& header,
                           const transport::PageRequest& page, std::uint64_t bytes) noexcept {
  // Whole parts are certain; of the rest there may be a sample.
  std::uint64_t weight = bytes / kBytesPerSample;
  std::uint64_t rest = bytes % kBytesPerSample;
  while (rest >= bytes_left_) {
    rest -= bytes_left_;
    ++weight;
    bytes_left_ = draw(kBytesPerSample, page.hash);
  }
  bytes_left_ -= rest;
  if (weight == 0) return;
  const std::uint64_t heaviest = base::SpaceSaving::kUseWeightMax;
  bytes_.add(hot_key_of(header, page), static_cast<std::uint32_t>(std::min(weight, heaviest)));
  has_changed_ = true;
}

void HotKeys::publish(base::TimeNs now_ns) noexcept {
  if (halve_ns_ == 0) halve_ns_ = now_ns + kHalfLifeNs;
  if (now_ns >= halve_ns_) {
    constexpr base::TimeNs kTimesMax = 32;  // nothing is left then
    const base::TimeNs times = std::min(1 + (now_ns - halve_ns_) / kHalfLifeNs, kTimesMax);
    for (base::TimeNs i = 0; i < times; ++i) {
      requests_.halve();
      bytes_.halve();
    }
    halve_ns_ = now_ns + kHalfLifeNs;
    has_changed_ = true;
  }
  if (!has_changed_) return;
  has_changed_ = false;
  base::HotTable& table = tables_.back();
  copy(requests_, table.requests);
  copy(bytes_, table.bytes);
  tables_.publish();
}

}  // namespace simm::server
