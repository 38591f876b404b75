// PolicyContest: which order gives one tenant more hits: the least recently used group first, or
// the one that the reuse model says is worth least? Two small simulated caches of names find out,
// over a sample of the groups by hash (Waldspurger et al., "Cache modeling and optimization using
// miniature simulations", 2017). Each cache is as large beside the sample as the tenant's part of
// the store is beside all its groups. The model is right while traffic is as it was. It is worse
// than age for a loop longer than the store, or when somebody taught it a habit that nobody has.
//
// A use of a group in the sample is O(1), and of any other group one multiplication. Nothing is
// allocated. Some 180 KiB. Thread: the data agent of the store.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/reuse_model.h"
#include "daemon/store/space/table.h"

namespace simm::store {

class PolicyContest {
public:
  static constexpr std::uint32_t kContestGroupsMax = 2048;  // in each of the simulated caches

  static constexpr std::uint32_t kNames = 2 * (kContestGroupsMax + 2);
  static constexpr std::uint32_t kChains = 4096;

  // A group that one of the caches has, or both.
  struct Name {
    std::uint32_t tag;
    std::uint32_t sample;  // bits of the hash that choose the sample
    base::TimeNs used_ns;
    Link by_age;    // in the one cache,
    Link by_worth;  // and in a queue of the other
    std::uint32_t chain;
    std::uint8_t group_class;
    bool aged;   // the one cache has it,
    bool rated;  // and the other
  };
  struct Memory {
    std::array<Name, kNames + 1> names;
    std::array<std::uint32_t, kChains> chains;  // the first name of each
  };

  // `memory` is zeroed, of this contest alone, and outlives it.
  explicit PolicyContest(Memory& memory) noexcept
      : names_(memory.names.data(), kNames), chains_(memory.chains) {}
  PolicyContest(const PolicyContest&) = delete;
  PolicyContest& operator=(const PolicyContest&) = delete;

  // A use of the group with this hash, as ReuseModel::note() has it. `groups`: how many the tenant
  // has in the store.
  void note(std::uint64_t hash, std::uint8_t uses, std::uint32_t groups, const ReuseModel& model,
            base::TimeNs now_ns) noexcept {
    const std::uint64_t mixed = hash * 0xbf58476d1ce4e5b9u;
    if (in_sample(sample_of(mixed))) play(mixed, uses, groups, model, now_ns);
  }
  // The least recently used should leave first. Also while nothing was ever hit: the model knows
  // nothing then, and a store whose newest leave would keep what nobody uses.
  [[nodiscard]] bool prefers_age() const noexcept { return prefers_age_ || !has_hit_; }

private:
  using AgeQueue = IndexList<Name, &Name::by_age>;
  using WorthQueue = IndexList<Name, &Name::by_worth>;

  [[nodiscard]] static std::uint32_t sample_of(std::uint64_t mixed) noexcept {
    return static_cast<std::uint32_t>(mixed >> 44);
  }
  [[nodiscard]] bool in_sample(std::uint32_t sample) const noexcept {
    return (sample & sample_mask_) == 0;
  }
  // A use of a group in the sample.
  void play(std::uint64_t mixed, std::uint8_t uses, std::uint32_t groups, const ReuseModel& model,
            base::TimeNs now_ns) noexcept;
  [[nodiscard]] std::uint32_t find(std::uint32_t tag) const noexcept;
  [[nodiscard]] std::uint32_t make(std::uint32_t tag, std::uint32_t sample) noexcept;
  void judge(bool hit_by_age, bool hit_by_worth) noexcept;
  void fade() noexcept;
  void follow(std::uint32_t groups) noexcept;
  void use_by_age(std::uint32_t name) noexcept;
  void use_by_worth(std::uint32_t name, std::uint8_t group_class) noexcept;
  void evict_by_age() noexcept;
  void evict_by_worth(const ReuseModel& model, base::TimeNs now_ns) noexcept;
  void drop_by_age(std::uint32_t name) noexcept;
  void drop_by_worth(std::uint32_t name) noexcept;
  void release_unused(std::uint32_t name) noexcept;

  Table<Name> names_;
  std::array<std::uint32_t, kChains>& chains_;
  AgeQueue by_age_;
  std::array<WorthQueue, ReuseModel::kClasses> by_worth_;
  std::uint32_t aged_ = 0;         // names in the one cache,
  std::uint32_t rated_ = 0;        // and in the other
  std::uint32_t capacity_ = 1;     // of each
  std::uint32_t sample_mask_ = 0;  // one group of 2^shift is in the sample: as many ones
  float lead_ = 0;           // hits that only age had, less those that only worth had; they fade
  float differing_ = 0;      // both together; they fade likewise
  float block_lead_ = 0;     // the lead of this block of uses,
  float block_squares_ = 0;  // the sum of its squares in the blocks before; they fade too,
  float blocks_ = 0;         // and so does their number
  std::uint32_t uses_ = 0;
  bool prefers_age_ = false;
  bool has_hit_ = false;  // one of the caches, once
};

}  // namespace simm::store
