// StoreSpectrum: what a store holds by length of the objects, what it evicted by age and by uses,
// and how old groups were when they were used again. Classes are named by their upper ends; the
// last one of ages and uses has none.
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
// Three to each power of ten would tell no more. The first begins at 1 s: what comes sooner belongs
// to the same use.
inline constexpr std::array<const char*, 9> kReuseClasses = {
    "3s", "10s", "30s", "100s", "300s", "1000s", "3000s", "10000s", "more"};
using ReuseAges = std::array<std::uint64_t, kReuseClasses.size()>;

struct StoreSpectrum {
  std::array<std::uint64_t, kLengthClasses.size()> objects{};  // live
  std::array<std::uint64_t, kLengthClasses.size()> bytes{};    // of their payloads
  // Evicted objects, by the time since the last use of their group.
  std::array<std::uint64_t, kAgeClasses.size()> evicted_by_age{};
  // The same, by how often their group was used, as the policy counts.
  std::array<std::uint64_t, kUseClasses.size()> evicted_by_uses{};
  // Groups that were used again, by the time since the use before. First in, first out keeps no
  // such time: there it is the time since they were made.
  ReuseAges reused_by_age{};

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
  static constexpr std::size_t reuse_class(base::TimeNs age_ns) noexcept {
    std::size_t found = 0;
    for (base::TimeNs decade = base::kNsPerSecond; found + 1 < kReuseClasses.size(); decade *= 10) {
      if (age_ns <= 3 * decade) return found;
      if (age_ns <= 10 * decade) return found + 1;
      found += 2;
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
