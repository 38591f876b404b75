// Histogram: durations (or sizes) in powers of two, kept in counters, so that every reader of the
// counters file can compute percentiles. Bucket i counts values in [2^(i-1), 2^i), bucket 0 zeros;
// the last one everything above. Names: "<name>.log2_00" .. "<name>.log2_39", "<name>.sum".
// Thread: record() by its one writer; percentile() by anybody.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/counters.h"

namespace simm::base {

class Histogram {
public:
  static constexpr std::size_t kBuckets = 40;  // up to 9 minutes in nanoseconds

  Histogram() = default;  // counts into unread cells
  Histogram(CounterSet& counters, std::string_view name, Metric metric = {}) {
    const std::string prefix = std::string(name) + ".";
    for (std::size_t i = 0; i < kBuckets; ++i) {
      const std::string digits = (i < 10 ? "0" : "") + std::to_string(i);
      metric.part = static_cast<std::uint8_t>(i);
      buckets_[i] = counters.counter(prefix + "log2_" + digits, metric);
    }
    metric.part = Metric::kSum;
    sum_ = counters.counter(prefix + "sum", metric);
  }

  void record(std::uint64_t value) noexcept {
    const auto bucket = static_cast<std::size_t>(std::bit_width(value));
    buckets_[bucket < kBuckets ? bucket : kBuckets - 1].add();
    sum_.add(value);
  }

  [[nodiscard]] std::uint64_t count() const noexcept {
    std::uint64_t total = 0;
    for (const Counter& bucket : buckets_) total += bucket.value();
    return total;
  }
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_.value(); }

  // The upper edge of the bucket that holds the `per_mille`-th of a thousand; 0 without values.
  [[nodiscard]] std::uint64_t percentile(std::uint64_t per_mille) const noexcept {
    const std::uint64_t total = count();
    const std::uint64_t rank = (total * per_mille + 999) / 1000;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i].value();
      if (seen >= rank && seen > 0) return i == 0 ? 0 : (std::uint64_t{1} << i) - 1;
    }
    return 0;
  }

private:
  std::array<Counter, kBuckets> buckets_;
  Counter sum_;
};

}  // namespace simm::base
