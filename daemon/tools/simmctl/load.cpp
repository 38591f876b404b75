#include "daemon/tools/simmctl/load.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

// Of a daemon that was restarted `before` is nothing.
std::uint64_t grown(std::uint64_t before, std::uint64_t after) {
  return after >= before ? after - before : after;
}

double rounded(double value) {
  return std::round(value * 10) / 10;
}

// In microseconds, the upper edge of the bucket; null without any.
ordered_json percentile_us(const std::array<std::uint64_t, Load::kBuckets>& buckets, double share) {
  std::uint64_t total = 0;
  for (const std::uint64_t count : buckets) total += count;
  if (total == 0) return nullptr;
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(total)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    seen += buckets[i];
    if (seen >= rank && seen > 0) return rounded(std::ldexp(1.0, static_cast<int>(i)) / 1000);
  }
  return nullptr;
}

// Hits of all that were looked for; null when nothing was.
ordered_json share_percent(std::uint64_t hits, std::uint64_t misses) {
  if (hits + misses == 0) return nullptr;
  return rounded(100 * static_cast<double>(hits) / static_cast<double>(hits + misses));
}

}  // namespace

Load load_of(const ordered_json& counters) {
  Load load;
  for (const auto& [name, value] : counters.items()) {
    if (!value.is_number_integer()) continue;
    const auto sum = value.get<std::uint64_t>();
    base::with_load_cell(load, name, [sum](std::uint64_t& cell) { cell += sum; });
  }
  return load;
}

ordered_json rates_of(const Load& before, const Load& after, double seconds) {
  const auto rate = [&](std::uint64_t Load::*field) {
    return rounded(static_cast<double>(grown(before.*field, after.*field)) / seconds);
  };
  std::array<std::uint64_t, Load::kBuckets> batch_ns{};
  for (std::size_t i = 0; i < batch_ns.size(); ++i) {
    batch_ns[i] = grown(before.batch_ns[i], after.batch_ns[i]);
  }
  ordered_json out;
  out["seconds"] = std::round(seconds * 1000) / 1000;
  out["clients"] = {{"sessions", after.sessions},
                    {"batches_per_s", rate(&Load::batches)},
                    {"pages_per_s", rate(&Load::pages)},
                    {"bytes_per_s", rate(&Load::bytes)},
                    {"timeouts_per_s", rate(&Load::timeouts)},
                    {"unreachable_per_s", rate(&Load::unreachable)},
                    {"got_bytes_per_s", rate(&Load::got_bytes)},
                    {"put_bytes_per_s", rate(&Load::stored_bytes)},
                    {"hit_pages_per_s", rate(&Load::hit_pages)},
                    {"missed_pages_per_s", rate(&Load::missed_pages)},
                    {"hit_percent", share_percent(grown(before.hit_pages, after.hit_pages),
                                                  grown(before.missed_pages, after.missed_pages))},
                    {"batch_p50_us", percentile_us(batch_ns, 0.5)},
                    {"batch_p99_us", percentile_us(batch_ns, 0.99)},
                    {"batch_max_us", percentile_us(batch_ns, 1.0)}};
  out["pool"] = {
      {"get_pages_per_s", rate(&Load::get_pages)},
      {"get_bytes_per_s", rate(&Load::get_bytes)},
      {"get_hit_percent", share_percent(grown(before.get_pages, after.get_pages),
                                        grown(before.get_misses, after.get_misses))},
      {"exists_per_s", rate(&Load::exists_hits) + rate(&Load::exists_misses)},
      {"exists_hit_percent", share_percent(grown(before.exists_hits, after.exists_hits),
                                           grown(before.exists_misses, after.exists_misses))},
      {"put_pages_per_s", rate(&Load::put_pages)},
      {"put_bytes_per_s", rate(&Load::put_bytes)},
      {"evicted_per_s", rate(&Load::evicted)},
      {"lost_in_lease_per_s", rate(&Load::lost_in_lease)},
      {"objects", after.objects},
      {"used_bytes", after.used_bytes},
      {"leased_bytes", after.leased_bytes},
      {"arena_bytes", after.arena_bytes}};
  out["network"] = {{"tcp_in_bytes_per_s", rate(&Load::tcp_in_bytes)},
                    {"tcp_out_bytes_per_s", rate(&Load::tcp_out_bytes)},
                    {"rdma_in_bytes_per_s", rate(&Load::rdma_in_bytes)},
                    {"rdma_out_bytes_per_s", rate(&Load::rdma_out_bytes)}};
  return out;
}

ordered_json tenant_rates_of(const ordered_json& before, const ordered_json& after,
                             double seconds) {
  ordered_json all = ordered_json::array();
  for (const ordered_json& now : after) {
    const auto was = std::find_if(before.begin(), before.end(), [&now](const ordered_json& row) {
      return row["tenant"] == now["tenant"];
    });
    const auto rate = [&](const char* number) {
      const std::uint64_t first = was == before.end() ? 0 : was->value(number, std::uint64_t{0});
      const std::uint64_t last = now.value(number, std::uint64_t{0});
      return rounded(static_cast<double>(grown(first, last)) / seconds);
    };
    all.push_back({{"tenant", now["tenant"]},
                   {"got_bytes_per_s", rate("got_bytes")},
                   {"put_bytes_per_s", rate("put_bytes")},
                   {"held_per_s", rate("held")}});
  }
  return all;
}

}  // namespace simm::ctl
