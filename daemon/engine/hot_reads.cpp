#include "daemon/engine/hot_reads.h"

#include <algorithm>
#include <array>

namespace simm::engine {

// The distance to the next sample is drawn from hashes that no client knows: a batch of always the
// same shape is seen everywhere. A linear congruential step, with Knuth's constants for MMIX.
void HotReads::sample(const transport::RequestHeader& header,
                      std::span<const transport::PageRequest> pages, base::TimeNs now_ns) noexcept {
  std::uint64_t at = pages_left_ - 1;
  while (at < pages.size()) {
    const std::uint64_t group = pages[at].group;
    reads_.add({{group, group}, header.tenant, header.name_space}, 1);
    if (--samples_left_ == 0) look(now_ns);
    draws_ = (draws_ ^ group) * 6364136223846793005u + 1442695040888963407u;
    at += 1 + ((draws_ >> 32) & (2 * kPagesPerSample - 1));
  }
  pages_left_ = static_cast<std::uint32_t>(at - pages.size()) + 1;
}

void HotReads::look(base::TimeNs now_ns) noexcept {
  samples_left_ = kSamplesPerLook;
  if (halve_ns_ == 0) halve_ns_ = now_ns + kHalfLifeNs;
  for (int times = 0; now_ns >= halve_ns_ && times < 32; ++times) {
    reads_.halve();
    halve_ns_ += kHalfLifeNs;
  }
  halve_ns_ = std::max(halve_ns_, now_ns);
  std::array<base::SpaceSaving::Entry, base::SpaceSaving::kHotKeysCounted> entries;
  const std::uint32_t count = reads_.copy_to(entries);
  hot_.reset();
  hot_count_ = 0;
  for (const base::SpaceSaving::Entry& entry : std::span(entries).first(count)) {
    const std::uint32_t certain = entry.count - entry.error;
    if (certain < kSamplesMin * base::SpaceSaving::kScale) continue;
    if (certain < reads_.total() / kPartsOfReads) continue;
    hot_.set(base::slot_of(entry.key.hash.low));
    ++hot_count_;
  }
}

}  // namespace simm::engine
