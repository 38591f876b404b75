#include "daemon/metrics/store_tenants.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/json_text.h"

namespace simm::control {
namespace {

using store::TenantUse;

// In the order in which they are shown.
struct TenantNumber {
  const char* name;    // in JSON
  const char* metric;  // behind simm_store_tenant_
  MetricType type;
  std::uint64_t (*read)(const TenantUse&);
  const char* help;
};

constexpr MetricType kGauge = MetricType::gauge;
constexpr MetricType kCounter = MetricType::counter;

constexpr std::array<TenantNumber, 14> kNumbers = {{
    {"objects", "objects", kGauge, [](const TenantUse& u) { return u.tally.objects; },
     "Objects of a tenant that are there, in all shards of this daemon."},
    {"payload_bytes", "payload_bytes", kGauge,
     [](const TenantUse& u) { return u.tally.payload_bytes; }, "Bytes of those."},
    {"extent_bytes", "used_bytes", kGauge, [](const TenantUse& u) { return u.extent_bytes; },
     "Memory in use for objects of a tenant."},
    {"leased_bytes", "leased_bytes", kGauge, [](const TenantUse& u) { return u.leased_bytes; },
     "Of that, memory of groups under a lease."},
    {"pinned_bytes", "pinned_bytes", kGauge, [](const TenantUse& u) { return u.pinned_bytes; },
     "Of that, memory of pinned groups."},
    {"quota_bytes", "quota_bytes", kGauge, [](const TenantUse& u) { return u.quota_bytes; },
     "What a tenant may use at most; the whole pool: it has no quota."},
    {"fair_bytes", "fair_bytes", kGauge, [](const TenantUse& u) { return u.fair_bytes; },
     "Its share by weight, if all that hold anything want theirs; at most its quota."},
    {"weight", "weight", kGauge, [](const TenantUse& u) { return u.weight; },
     "The weight of a tenant in the store."},
    {"evicted", "evicted_total", kCounter, [](const TenantUse& u) { return u.tally.evicted; },
     "Objects of a tenant that were evicted."},
    {"evicted_bytes", "evicted_bytes_total", kCounter,
     [](const TenantUse& u) { return u.tally.evicted_bytes; }, "Memory of those."},
    {"reads", "reads_total", kCounter, [](const TenantUse& u) { return u.tally.reads; },
     "Reads of a tenant that found their object."},
    {"read_misses", "read_misses_total", kCounter,
     [](const TenantUse& u) { return u.tally.read_misses; }, "Reads that did not."},
    {"exists_hits", "exists_hits_total", kCounter,
     [](const TenantUse& u) { return u.tally.exists_hits; },
     "Questions of a tenant for an object that was there."},
    {"exists_misses", "exists_misses_total", kCounter,
     [](const TenantUse& u) { return u.tally.exists_misses; }, "Questions for one that was not."},
}};

void add(TenantUse& sum, const TenantUse& use) noexcept {
  sum.weight = use.weight;
  sum.quota_bytes += use.quota_bytes;
  sum.fair_bytes += use.fair_bytes;
  sum.extent_bytes += use.extent_bytes;
  sum.leased_bytes += use.leased_bytes;
  sum.pinned_bytes += use.pinned_bytes;
  sum.tally.objects += use.tally.objects;
  sum.tally.payload_bytes += use.tally.payload_bytes;
  sum.tally.evicted += use.tally.evicted;
  sum.tally.evicted_bytes += use.tally.evicted_bytes;
  sum.tally.reads += use.tally.reads;
  sum.tally.read_misses += use.tally.read_misses;
  sum.tally.exists_hits += use.tally.exists_hits;
  sum.tally.exists_misses += use.tally.exists_misses;
}

std::string text_of(base::TenantId tenant) {
  std::array<char, 18> text{};
  std::snprintf(text.data(), text.size(), "#%016" PRIx64, tenant.value);
  return text.data();
}

}  // namespace

std::string StoreTenants::name_of(base::TenantId tenant) const {
  const Tenant* const known = rules_.find(tenant);
  return known == nullptr ? std::string() : known->name;
}

std::vector<StoreTenants::Row> StoreTenants::rows() const {
  std::map<std::string, TenantUse> sums;
  std::size_t names = rules_.tenants().size();
  for (store::TenantTables* const tables : tables_) {
    const store::TenantTable& table = tables->latest();
    for (std::uint32_t i = 0; i < table.count; ++i) {
      std::string name = name_of(table.rows[i].tenant);
      if (name.empty()) {
        name = text_of(table.rows[i].tenant);
        if (sums.count(name) == 0 && names++ >= kShownMax) name = "#others";
      }
      add(sums[name], table.rows[i]);
    }
  }
  std::vector<Row> all;
  for (const auto& [name, use] : sums) all.push_back({name, use});
  return all;
}

std::string StoreTenants::json() const {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows()) {
    nlohmann::ordered_json& shown = all.emplace_back();
    shown["tenant"] = row.name;
    for (const TenantNumber& number : kNumbers) shown[number.name] = number.read(row.use);
  }
  return base::json_text(all);
}

void StoreTenants::write_metrics(MetricsText& text) const {
  const std::vector<Row> all = rows();
  if (all.empty()) return;
  for (const TenantNumber& number : kNumbers) {
    text.family(std::string("simm_store_tenant_") + number.metric, number.type, number.help);
    for (const Row& row : all) text.sample({{"tenant", row.name}}, number.read(row.use));
  }
}

}  // namespace simm::control
