#include "daemon/store/eviction/reuse_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace simm::store {

namespace {

// Of what is known, at each refresh: half of it is gone after 71,000 watched uses.
constexpr double kForgetting = 0.995;
// Before anything is known: one group in so many is used again while its age doubles. Any number
// that is the same for all ages makes the worth fall with age, which is least recently used.
constexpr double kPriorOdds = 0.005;
constexpr double kPriorUsesOfAll = 2;     // how many observed uses the prior counts as
constexpr double kPriorUsesOfClass = 10;  // the same, of all classes together for a single one

constexpr std::uint64_t kMaskMin = 1;
constexpr std::uint64_t kMaskMax = (1 << 12) - 1;

// Groups are watched for several times as long as they stay in the store.
bool too_many(std::uint32_t groups, std::uint64_t sample_mask) noexcept {
  constexpr std::uint64_t kWatched = std::uint64_t{ReuseModel::kSets} * ReuseModel::kWays;
  return std::uint64_t{groups} * 4 > kWatched * (sample_mask + 1);
}

double width_s(std::uint32_t bucket) noexcept {
  return ReuseModel::start_s(bucket + 1) - ReuseModel::start_s(bucket);
}

}  // namespace

ReuseModel::ReuseModel(Memory& memory) noexcept : sets_(memory) {
  refresh();
}

void ReuseModel::Row::spend(base::TimeNs from_age_ns, base::TimeNs until_age_ns) noexcept {
  const double from_s = static_cast<double>(from_age_ns) * 1e-9;
  const double until_s = static_cast<double>(until_age_ns) * 1e-9;
  const std::uint32_t first = bucket_of(from_age_ns);
  const std::uint32_t last = bucket_of(until_age_ns);
  if (first == last) {
    exposure_s[first] += static_cast<float>(until_s - from_s);
    return;
  }
  exposure_s[first] += static_cast<float>(start_s(first + 1) - from_s);
  exposure_s[last] += static_cast<float>(until_s - start_s(last));
  whole_begin[first + 1] += 1;
  whole_begin[last] -= 1;
}

void ReuseModel::Row::add_whole() noexcept {
  float whole = 0;
  for (std::uint32_t b = 0; b < kBuckets; ++b) {
    whole += std::exchange(whole_begin[b], 0.0f);
    exposure_s[b] += whole * static_cast<float>(width_s(b));
  }
}

void ReuseModel::count_exposure(const Set& set, const Watched& w, base::TimeNs now_ns) noexcept {
  const base::TimeNs since = std::max(set.counted_ns, w.used_ns);
  if (!w.taken || since >= now_ns) return;
  rows_[w.group_class].spend(since - w.used_ns, now_ns - w.used_ns);
}

void ReuseModel::sweep(base::TimeNs now_ns) noexcept {
  Set& set = sets_[sweep_];
  for (const Watched& w : set.ways) count_exposure(set, w, now_ns);
  set.counted_ns = now_ns;
  sweep_ = (sweep_ + 1) % kSets;
}

// The low half finds the place, the high half is the name: a mix-up costs one wrong observation.
void ReuseModel::watch(std::uint64_t mixed, std::uint8_t uses, std::uint32_t groups,
                       base::TimeNs now_ns) noexcept {
  // Far fewer groups than before: at once, a use that is watched is rare by then.
  if (sample_mask_ > kMaskMin && !too_many(groups, sample_mask_ >> 2)) {
    while (sample_mask_ > kMaskMin && !too_many(groups, sample_mask_ >> 1)) sample_mask_ >>= 1;
  }
  const auto tag = static_cast<std::uint32_t>(mixed >> 32);
  Set& set = sets_[(mixed >> 8) % kSets];
  Watched* place = &set.ways[0];
  for (Watched& w : set.ways) {
    if (w.taken && w.tag == tag) {
      rows_[w.group_class].uses[bucket_of(now_ns - w.used_ns)] += 1;
      place = &w;
      break;
    }
    if (place->taken && (!w.taken || w.used_ns < place->used_ns)) place = &w;
  }
  count_exposure(set, *place, now_ns);
  *place = {tag, static_cast<std::uint8_t>(class_of(uses)), true, now_ns};
  sweep(now_ns);
  if (++watched_uses_ % kUsesPerRefresh != 0) return;
  if (too_many(groups, sample_mask_) && sample_mask_ < kMaskMax)
    sample_mask_ = sample_mask_ << 1 | 1;
  refresh();
}

ReuseModel::Rates ReuseModel::rates_of(const Row& row, const Rates& prior, double weight) noexcept {
  Rates rates;
  for (std::uint32_t b = 0; b < kBuckets; ++b) {
    rates[b] = (row.uses[b] + weight) / (row.exposure_s[b] + weight / prior[b]);
  }
  return rates;
}

// Of a group that is unused when a stretch of ages begins: the expected uses in the stretch, the
// expected time in memory, and the chance that it is unused at the end. The best ratio of uses to
// time over all ends is found from the right. A stretch swallows the next one as long as that one
// is worth more. What is said of an age heeds only what comes after it, so ages that nearly nothing
// reaches unused are rated as well as others.
void ReuseModel::fill_worth(const Rates& rates, std::array<float, kBuckets>& worth) noexcept {
  struct Stretch {
    double uses, time_s, unused;
  };
  std::array<Stretch, kBuckets> later;  // the nearest is the last
  std::uint32_t count = 0;
  for (std::uint32_t b = kBuckets; b-- > 0;) {
    const double odds = rates[b] * width_s(b);
    const double uses = -std::expm1(-odds);
    Stretch best{uses, uses / rates[b], 1 - uses};
    for (; count > 0; --count) {
      const Stretch& next = later[count - 1];
      if (best.uses * next.time_s > next.uses * best.time_s) break;
      best.uses += best.unused * next.uses;
      best.time_s += best.unused * next.time_s;
      best.unused *= next.unused;
    }
    worth[b] = static_cast<float>(best.uses / best.time_s);
    later[count++] = best;
  }
}

void ReuseModel::refresh() noexcept {
  Rates prior;
  for (std::uint32_t b = 0; b < kBuckets; ++b) prior[b] = kPriorOdds / (start_s(b) + width_s(b));
  Row all;
  for (Row& row : rows_) {
    row.add_whole();
    for (std::uint32_t b = 0; b < kBuckets; ++b) {
      all.uses[b] += row.uses[b];
      all.exposure_s[b] += row.exposure_s[b];
    }
  }
  const Rates pooled = rates_of(all, prior, kPriorUsesOfAll);
  for (std::uint32_t c = 0; c < kClasses; ++c) {
    fill_worth(rates_of(rows_[c], pooled, kPriorUsesOfClass), worth_[c]);
    for (std::uint32_t b = 0; b < kBuckets; ++b) {
      if (c > 0) worth_[c][b] = std::max(worth_[c][b], worth_[c - 1][b]);
      rows_[c].uses[b] *= static_cast<float>(kForgetting);
      rows_[c].exposure_s[b] *= static_cast<float>(kForgetting);
    }
  }
}

}  // namespace simm::store
