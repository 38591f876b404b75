#include "daemon/metrics/hot_report.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/base/json_text.h"

namespace simm::control {
namespace {

using base::HotList;
using base::SpaceSaving;
using nlohmann::ordered_json;

double share_of(std::uint64_t count, std::uint64_t total) noexcept {
  if (total == 0) return 0;
  return std::min(1.0, static_cast<double>(count) / static_cast<double>(total));
}

// With two digits, as people read it.
double percent_of(std::uint64_t count, std::uint64_t total) noexcept {
  return std::round(share_of(count, total) * 1e4) / 1e2;
}

std::uint32_t most_of(const HotList& list) noexcept {
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < list.count; ++i) most = std::max(most, list.entries[i].count);
  return most;
}

std::string text_of(std::uint64_t id) {
  std::array<char, 18> text{};
  std::snprintf(text.data(), text.size(), "#%016" PRIx64, id);
  return text.data();
}

std::string text_of(const base::KeyHash& hash) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
  return text.data();
}

}  // namespace

// By one measure. The shard's total goes with it: a shard may have been asked for nothing else.
struct HotReport::Use {
  std::uint64_t count = 0;
  std::uint64_t error = 0;
  std::uint64_t shard_total = 0;
  std::uint64_t total = 0;  // of all shards

  [[nodiscard]] double percent() const noexcept { return percent_of(count, total); }
  // What is certain.
  [[nodiscard]] double least_percent() const noexcept { return percent_of(count - error, total); }
  [[nodiscard]] double shard_percent() const noexcept { return percent_of(count, shard_total); }
};

struct HotReport::Row {
  base::HotKey key;
  std::size_t shard = 0;
  Use requests;
  Use bytes;

  [[nodiscard]] double hottest() const noexcept {
    return std::max(requests.percent(), bytes.percent());
  }
};

// The hottest first. A key has one owner, so no two shards count the same one for long.
std::vector<HotReport::Row> HotReport::rows() const {
  std::vector<Row> all;
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  for (std::size_t shard = 0; shard < tables_.size(); ++shard) {
    if (tables_[shard] == nullptr) continue;
    const base::HotTable& table = tables_[shard]->latest();
    requests += table.requests.total;
    bytes += table.bytes.total;
    std::map<base::KeyHash, Row> rows;
    const auto add = [&](const HotList& list, Use Row::*use) {
      for (std::uint32_t i = 0; i < list.count; ++i) {
        const SpaceSaving::Entry& entry = list.entries[i];
        Row& row = rows[entry.key.hash];
        row.key = entry.key;
        row.shard = shard;
        (row.*use).count = entry.count;
        (row.*use).error = entry.error;
      }
    };
    add(table.requests, &Row::requests);
    add(table.bytes, &Row::bytes);
    for (auto& [hash, row] : rows) {
      row.requests.shard_total = table.requests.total;
      row.bytes.shard_total = table.bytes.total;
      all.push_back(row);
    }
  }
  for (Row& row : all) {
    row.requests.total = requests;
    row.bytes.total = bytes;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Row& a, const Row& b) { return a.hottest() > b.hottest(); });
  if (all.size() > kKeysShownMax) all.resize(kKeysShownMax);
  return all;
}

std::string HotReport::tenant_name(base::TenantId tenant) const {
  const Tenant* const known = rules_.find(tenant);
  return known == nullptr ? text_of(tenant.value) : known->name;
}

std::string HotReport::name_space_name(base::NamespaceId name_space) const {
  return name_space == rules_.namespace_id("") ? "(default)" : text_of(name_space.value);
}

std::string HotReport::json(Names names) const {
  ordered_json shards = ordered_json::array();
  for (std::size_t shard = 0; shard < tables_.size(); ++shard) {
    if (tables_[shard] == nullptr) continue;
    const base::HotTable& table = tables_[shard]->latest();
    shards.push_back(
        {{"owner", owner_},
         {"shard", shard},
         {"samples", table.requests.total / SpaceSaving::kScale},
         {"requests_percent", percent_of(most_of(table.requests), table.requests.total)},
         {"bytes_percent", percent_of(most_of(table.bytes), table.bytes.total)}});
  }
  ordered_json keys = ordered_json::array();
  for (const Row& row : rows()) {
    ordered_json key = {{"key_hash", text_of(row.key.hash)}};
    if (names == Names::shown) {
      key["tenant"] = tenant_name(row.key.tenant);
      key["namespace"] = name_space_name(row.key.name_space);
    }
    key.update({{"owner", owner_},
                {"shard", row.shard},
                {"requests_percent", row.requests.percent()},
                {"requests_percent_min", row.requests.least_percent()},
                {"requests_percent_of_shard", row.requests.shard_percent()},
                {"bytes_percent", row.bytes.percent()},
                {"bytes_percent_min", row.bytes.least_percent()},
                {"bytes_percent_of_shard", row.bytes.shard_percent()}});
    keys.push_back(std::move(key));
  }
  return base::json_text(ordered_json{{"shards", shards}, {"keys", keys}});
}

void HotReport::write_metrics(MetricsText& text) const {
  const auto write = [&](const char* name, const char* help, const HotList base::HotTable::*list) {
    bool is_begun = false;
    for (std::size_t shard = 0; shard < tables_.size(); ++shard) {
      if (tables_[shard] == nullptr) continue;
      const HotList& of_shard = tables_[shard]->latest().*list;
      if (!is_begun) text.family(name, MetricType::gauge, help);
      is_begun = true;
      text.sample(label_text({{"agent", std::to_string(shard)}}),
                  share_of(most_of(of_shard), of_shard.total));
    }
  };
  write("simm_hottest_key_requests_ratio",
        "Part of a shard's pages that were asked for by one key, the hottest, over the last "
        "minutes.",
        &base::HotTable::requests);
  write("simm_hottest_key_bytes_ratio",
        "Part of a shard's bytes that were moved for one key, the hottest, over the last minutes.",
        &base::HotTable::bytes);
}

}  // namespace simm::control
