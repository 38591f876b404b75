// Load: what a daemon has done so far, summed over its data agents, out of its counters; and what
// it did between two such moments. The numbers of `simmctl top`.
// Thread: any, pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace simm::ctl {

struct Load {
  static constexpr std::size_t kBuckets = 40;  // of base::Histogram

  // Asked by this daemon's clients.
  std::uint64_t batches = 0;
  std::uint64_t pages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t unreachable = 0;
  std::array<std::uint64_t, kBuckets> batch_ns{};  // batches by log2 of their time
  // Served by its part of the pool, to whomever.
  std::uint64_t get_pages = 0;
  std::uint64_t get_bytes = 0;
  std::uint64_t get_misses = 0;
  std::uint64_t exists_hits = 0;
  std::uint64_t exists_misses = 0;
  std::uint64_t put_pages = 0;
  std::uint64_t put_bytes = 0;
  std::uint64_t evicted = 0;
  std::uint64_t lost_in_lease = 0;
  // As it is now.
  std::uint64_t sessions = 0;
  std::uint64_t objects = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t leased_bytes = 0;
};

// `counters`: an object of names and values.
Load load_of(const nlohmann::ordered_json& counters);

// Rates of the time between two loads, as JSON: members end in their unit. A daemon that was
// restarted in between counts from zero.
nlohmann::ordered_json rates_of(const Load& before, const Load& after, double seconds);

// What clients of each tenant moved and waited for, between two answers to `tenants`.
nlohmann::ordered_json tenant_rates_of(const nlohmann::ordered_json& before,
                                       const nlohmann::ordered_json& after, double seconds);

// The same for people: a block of some lines; tenants only where there are several.
std::string text_of(const nlohmann::ordered_json& rates);

}  // namespace simm::ctl
