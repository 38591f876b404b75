// ReuseModel: how soon groups are used again, learned from the traffic, and what a group is worth
// that has not been used for a while.
//
// What it learns: the rate of the next use by the time since the last one (occurrences over
// exposure, as actuaries estimate mortality). Groups with one use, two, three, and from four, eight
// and sixteen on are rated apart. It watches a sample of all groups by hash (Waldspurger et al.,
// "Efficient MRC construction with SHARDS", 2015). Groups that were evicted are watched as well, so
// what it learns does not depend on what was kept.
//
// What it says: worth(uses, age) is the highest rate of uses per second of memory that keeping the
// group for some time longer can give: Gittins' index ("Bandit processes and dynamic allocation
// indices", 1979), the idea of hit density (Beckmann, Chen, Cidon, "LHD: improving cache hit rate
// by maximizing hit density", 2018) with the best time to give up instead of a fixed one. A group
// between two turns of a conversation gains worth while its reader thinks, and loses it later.
// More uses never make a group worth less at the same age. So the head of a prefix never goes
// before its tail: it is used at the same time, and at least as often.
//
// A use is O(1); every kUsesPerRefresh watched ones the table of worth is made anew, a few
// microseconds. Some 300 KiB, no allocation. Thread: the data agent of the store.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "daemon/base/clock.h"

namespace simm::store {

class ReuseModel {
public:
  static constexpr std::uint32_t kClasses = 6;   // 1 use, 2, 3, 4 to 7, 8 to 15, more
  static constexpr std::uint32_t kBuckets = 80;  // ages: four to the octave, from 1/4 s on

  // The groups that it watches. Zeros are a valid state, so that what is not used costs no memory.
  static constexpr std::uint32_t kWays = 4;
  static constexpr std::uint32_t kSets = 4096;
  struct Watched {
    std::uint32_t tag;
    std::uint8_t group_class;
    bool taken;
    base::TimeNs used_ns;
  };
  struct Set {
    std::array<Watched, kWays> ways;
    base::TimeNs counted_ns;  // exposure before this, or before a later use, is in the rows
  };
  using Memory = std::array<Set, kSets>;

  // `memory` is zeroed, of this model alone, and outlives it.
  explicit ReuseModel(Memory& memory) noexcept;

  static std::uint32_t class_of(std::uint8_t uses) noexcept { return kClassOfUses[uses]; }
  // A use of the group with this hash; `uses` counts this one. `groups`: how many there are now.
  void note(std::uint64_t hash, std::uint8_t uses, std::uint32_t groups,
            base::TimeNs now_ns) noexcept {
    const std::uint64_t mixed = hash * 0x9e3779b97f4a7c15u;
    if ((mixed >> 20 & sample_mask_) == 0) watch(mixed, uses, groups, now_ns);
  }
  [[nodiscard]] float worth(std::uint32_t group_class, base::TimeNs age_ns) const noexcept {
    return worth_[group_class][bucket_of(age_ns)];
  }

  // Whether the last that came of a class may leave before older ones. One that is waited for is
  // worth more shortly before it is due than just after its use. That way a loop longer than the
  // store keeps a part. The most used do not: one worth of theirs stands for very different groups,
  // and the youngest is the likeliest to be hot.
  static constexpr bool offers_newest(std::uint32_t group_class) noexcept {
    return group_class + 1 < kClasses;
  }

  // The bucket of an age, and the age at which a bucket begins.
  static std::uint32_t bucket_of(base::TimeNs age_ns) noexcept {
    const std::uint64_t units = 4 + age_ns / kUnitNs;
    const auto octave = static_cast<std::uint32_t>(std::bit_width(units)) - 3;
    const auto bucket = 4 * octave + static_cast<std::uint32_t>(units >> octave) - 4;
    return std::min(bucket, kBuckets - 1);
  }
  static double start_s(std::uint32_t bucket) noexcept {
    const std::uint64_t units = ((std::uint64_t{4} + bucket % 4) << (bucket / 4)) - 4;
    return static_cast<double>(units) * (static_cast<double>(kUnitNs) * 1e-9);
  }

private:
  static constexpr std::uint32_t kUsesPerRefresh = 512;
  static constexpr base::TimeNs kUnitNs =
      base::kNsPerSecond / 16;  // of the first four buckets each

  struct Row {
    std::array<float, kBuckets> uses{};        // that ended an age in this bucket
    std::array<float, kBuckets> exposure_s{};  // time that groups spent in it
    // How many more groups spent the whole of it, and each later one, than of the one before:
    // not in exposure_s yet.
    std::array<float, kBuckets> whole_begin{};

    // A group was unused from the one age to the other.
    void spend(base::TimeNs from_age_ns, base::TimeNs until_age_ns) noexcept;
    void add_whole() noexcept;
  };
  using Rates = std::array<double, kBuckets>;

  static constexpr auto kClassOfUses = [] {
    std::array<std::uint8_t, 256> classes{};  // of no use and of one: 0
    for (std::uint32_t uses = 1; uses < classes.size(); ++uses) {
      const auto octave = static_cast<std::uint32_t>(std::bit_width(uses));
      const std::uint32_t own = uses < 4 ? uses - 1 : std::min(octave, kClasses - 1);
      classes[uses] = static_cast<std::uint8_t>(own);
    }
    return classes;
  }();

  // A use of a group in the sample.
  void watch(std::uint64_t mixed, std::uint8_t uses, std::uint32_t groups,
             base::TimeNs now_ns) noexcept;
  // Into the rows, what one of the set has been exposed since that was done last.
  void count_exposure(const Set& set, const Watched& w, base::TimeNs now_ns) noexcept;
  // The same for all of the next set: a group that nobody uses any more is exposed as well.
  void sweep(base::TimeNs now_ns) noexcept;
  void refresh() noexcept;
  static Rates rates_of(const Row& row, const Rates& prior, double weight) noexcept;
  static void fill_worth(const Rates& rates, std::array<float, kBuckets>& worth) noexcept;

  Memory& sets_;
  std::array<Row, kClasses> rows_{};
  std::array<std::array<float, kBuckets>, kClasses> worth_{};
  std::uint64_t sample_mask_ = 1;  // one group of 2^shift is watched: as many ones
  std::uint32_t watched_uses_ = 0;
  std::uint32_t sweep_ = 0;  // the set whose exposure is counted next
};

}  // namespace simm::store
