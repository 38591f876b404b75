#include "daemon/tools/simmctl/histograms.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kBuckets = 40;
constexpr const char* kBucketMark = ".log2_";
constexpr const char* kSumMark = ".sum";

using Buckets = std::array<std::uint64_t, kBuckets>;

// "12.3 us": the upper edge of a bucket of nanoseconds.
std::string edge(std::size_t bucket) {
  const double us = bucket == 0 ? 0.0 : static_cast<double>(std::uint64_t{1} << bucket) / 1000.0;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), us < 100 ? "%.1f us" : "%.0f us", us);
  return text.data();
}

// The bucket of the `rank`-th value, counted from 1.
std::size_t bucket_of(const Buckets& buckets, std::uint64_t rank) {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets[i];
    if (seen >= rank) return i;
  }
  return kBuckets - 1;
}

std::string summary(const Buckets& buckets) {
  std::uint64_t count = 0;
  for (const std::uint64_t in_bucket : buckets) count += in_bucket;
  if (count == 0) return "count 0";
  return "count " + std::to_string(count) + ", p50 < " + edge(bucket_of(buckets, (count + 1) / 2)) +
         ", p99 < " + edge(bucket_of(buckets, count - count / 100)) + ", max < " +
         edge(bucket_of(buckets, count));
}

}  // namespace

ordered_json with_histograms(const ordered_json& counters) {
  std::map<std::string, Buckets> histograms;
  for (const auto& [name, value] : counters.items()) {
    const std::size_t mark = name.rfind(kBucketMark);
    if (mark == std::string::npos || !value.is_number_unsigned()) continue;
    const std::size_t bucket = std::strtoul(name.c_str() + mark + 6, nullptr, 10);
    if (bucket < kBuckets) histograms[name.substr(0, mark)][bucket] = value.get<std::uint64_t>();
  }
  ordered_json shown = ordered_json::object();
  for (const auto& [name, value] : counters.items()) {
    std::string owner;
    if (const std::size_t bucket = name.rfind(kBucketMark); bucket != std::string::npos) {
      owner = name.substr(0, bucket);
    } else if (name.size() > 4 && name.compare(name.size() - 4, 4, kSumMark) == 0) {
      owner = name.substr(0, name.size() - 4);
    }
    const auto found = histograms.find(owner);
    if (found == histograms.end()) {
      shown[name] = value;
    } else if (!shown.contains(owner)) {
      shown[owner] = summary(found->second);
    }
  }
  return shown;
}

}  // namespace simm::ctl
