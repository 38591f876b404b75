// StoreSpectrum: what a store holds by length of the objects, and what it evicted by age and by
// uses. Classes are named by their upper ends; the last one of ages and uses has none.
// Plain numbers of the store's agent.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"

namespace simm::store {

inline constexpr std::array<const char*, 11> kLengthClasses = {
    "1KiB", "4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB", "256MiB", "1GiB"};
inline constexpr std::array<const char*, 6> kAgeClasses = {"1s",    "10s",    "100s",
                                                           "1000s", "10000s", "more"};
inline constexpr std::array<const char*, 6> kUseClasses = {"1", "2", "4", "8", "16", "more"};

struct StoreSpectrum {
  std::array<std::uint64_t, kLengthClasses.size()> objects{};  // live
  std::array<std::uint64_t, kLengthClasses.size()> bytes{};    // of their payloads
  // Evicted objects, by the time since the last use of their group.
  std::array<std::uint64_t, kAgeClasses.size()> evicted_by_age{};
  // The same, by how often their group was used, as the policy counts.
  std::array<std::uint64_t, kUseClasses.size()> evicted_by_uses{};

  static constexpr std::size_t length_class(std::uint64_t bytes) noexcept {
    std::size_t found = 0;
    for (std::uint64_t end = 1024; bytes > end && found + 1 < kLengthClasses.size(); end *= 4) {
      ++found;
    }
    return found;
  }
  static constexpr std::size_t age_class(base::TimeNs age_ns) noexcept {
    std::size_t found = 0;
    for (base::TimeNs end = base::kNsPerSecond; age_ns > end && found + 1 < kAgeClasses.size();
         end *= 10) {
      ++found;
    }
    return found;
  }
  static constexpr std::size_t use_class(std::uint32_t uses) noexcept {
    std::size_t found = 0;
    for (std::uint32_t end = 1; uses > end && found + 1 < kUseClasses.size(); end *= 2) ++found;
    return found;
  }

  void add(std::uint64_t length) noexcept {
    ++objects[length_class(length)];
    bytes[length_class(length)] += length;
  }
  void remove(std::uint64_t length) noexcept {
    --objects[length_class(length)];
    bytes[length_class(length)] -= length;
  }
  void note_eviction(base::TimeNs age_ns, std::uint32_t uses) noexcept {
    ++evicted_by_age[age_class(age_ns)];
    ++evicted_by_uses[use_class(uses)];
  }
};

}  // namespace simm::store
