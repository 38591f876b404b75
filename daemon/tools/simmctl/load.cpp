#include "daemon/tools/simmctl/load.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>

#include "daemon/base/byte_size.h"
#include "daemon/tools/simmctl/agent_counter.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

struct Field {
  std::string_view section;
  std::string_view name;
  std::uint64_t Load::*sum;
};
constexpr Field kFields[] = {{"session", "attached", &Load::sessions},
                             {"engine", "batches", &Load::batches},
                             {"engine", "pages", &Load::pages},
                             {"engine", "bytes_moved", &Load::bytes},
                             {"engine", "timeouts", &Load::timeouts},
                             {"engine", "unreachable", &Load::unreachable},
                             {"server", "get_pages", &Load::get_pages},
                             {"server", "get_bytes", &Load::get_bytes},
                             {"server", "misses", &Load::get_misses},
                             {"server", "put_pages", &Load::put_pages},
                             {"server", "put_bytes", &Load::put_bytes},
                             {"store", "exists_hits", &Load::exists_hits},
                             {"store", "exists_misses", &Load::exists_misses},
                             {"store", "evicted", &Load::evicted},
                             {"store", "objects", &Load::objects},
                             {"store", "extent_bytes", &Load::used_bytes},
                             {"store", "arena_bytes", &Load::arena_bytes},
                             {"store", "leased_bytes", &Load::leased_bytes}};
constexpr std::string_view kLost = "lost_in_lease.";
constexpr std::string_view kBucket = "complete_ns.log2_";

void add(Load& load, const AgentCounter& counter, std::uint64_t value) {
  for (const Field& field : kFields) {
    if (counter.section == field.section && counter.name == field.name) load.*field.sum += value;
  }
  if (counter.section == "store" && counter.name.compare(0, kLost.size(), kLost) == 0) {
    load.lost_in_lease += value;
  }
  if (counter.section == "engine" && counter.name.compare(0, kBucket.size(), kBucket) == 0) {
    const std::size_t bucket = std::stoul(std::string(counter.name.substr(kBucket.size())));
    if (bucket < Load::kBuckets) load.batch_ns[bucket] += value;
  }
}

// Of a daemon that has been restarted `before` is nothing.
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

std::string number_cell(const ordered_json& value) {
  if (value.is_null()) return "-";
  if (!value.is_number_float()) return value.dump();
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value.get<double>());
  return text.data();
}

std::string bytes_cell(const ordered_json& value) {
  return base::format_bytes(static_cast<std::uint64_t>(value.get<double>()));
}

}  // namespace

Load load_of(const ordered_json& counters) {
  Load load;
  for (const auto& [name, value] : counters.items()) {
    const auto counter = agent_counter(name);
    if (counter && value.is_number_integer()) add(load, *counter, value.get<std::uint64_t>());
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

std::string text_of(const ordered_json& rates) {
  const ordered_json& clients = rates["clients"];
  const ordered_json& pool = rates["pool"];
  std::string text;
  const auto line = [&text](const char* name, const std::string& what) {
    std::array<char, 16> column{};
    std::snprintf(column.data(), column.size(), "%-10s", name);
    text += column.data() + what + "\n";
  };
  line("clients", number_cell(clients["sessions"]) + " sessions, " +
                      number_cell(clients["batches_per_s"]) + " batches/s, " +
                      number_cell(clients["pages_per_s"]) + " pages/s, " +
                      bytes_cell(clients["bytes_per_s"]) + "/s");
  line("batches", "p50 < " + number_cell(clients["batch_p50_us"]) + " us, p99 < " +
                      number_cell(clients["batch_p99_us"]) + " us, max < " +
                      number_cell(clients["batch_max_us"]) + " us; " +
                      number_cell(clients["timeouts_per_s"]) + " timeouts/s, " +
                      number_cell(clients["unreachable_per_s"]) + " unreachable/s");
  const ordered_json tenants = rates.value("tenants", ordered_json::array());
  for (std::size_t i = 0; tenants.size() > 1 && i < tenants.size(); ++i) {
    line("tenant", tenants[i]["tenant"].get<std::string>() + ": " +
                       bytes_cell(tenants[i]["got_bytes_per_s"]) + "/s got, " +
                       bytes_cell(tenants[i]["put_bytes_per_s"]) + "/s put, " +
                       number_cell(tenants[i]["held_per_s"]) + " waits/s");
  }
  if (pool["arena_bytes"] == 0) return text;
  line("gets", number_cell(pool["get_pages_per_s"]) + " pages/s, " +
                   bytes_cell(pool["get_bytes_per_s"]) + "/s, " +
                   number_cell(pool["get_hit_percent"]) + " % hits");
  line("exists", number_cell(pool["exists_per_s"]) + " pages/s, " +
                     number_cell(pool["exists_hit_percent"]) + " % hits");
  line("puts", number_cell(pool["put_pages_per_s"]) + " pages/s, " +
                   bytes_cell(pool["put_bytes_per_s"]) + "/s");
  line("pool", number_cell(pool["objects"]) + " objects, " + bytes_cell(pool["used_bytes"]) +
                   " of " + bytes_cell(pool["arena_bytes"]) + ", " +
                   bytes_cell(pool["leased_bytes"]) + " leased; " +
                   number_cell(pool["evicted_per_s"]) + " evicted/s, " +
                   number_cell(pool["lost_in_lease_per_s"]) + " lost in a lease/s");
  return text;
}

}  // namespace simm::ctl
