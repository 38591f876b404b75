#include "daemon/metrics/store_tenants.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace store_tenants_test {

using namespace simm;
using control::StoreTenants;
using store::TenantTable;
using store::TenantTables;

base::Config two_tenants() {
  auto config = base::parse_config(R"({"tenants": [{"name": "blue", "weight": 3}]})", "test");
  REQUIRE(config.has_value());
  return std::move(*config);
}

// A shard in which each tenant holds `bytes` and has missed once.
void fill(TenantTables& tables, const std::vector<base::TenantId>& tenants, std::uint64_t bytes) {
  TenantTable& table = tables.back();
  table.count = 0;
  for (const base::TenantId tenant : tenants) {
    store::TenantUse& use = table.rows[table.count++];
    use = {};
    use.tenant = tenant;
    use.weight = 3;
    use.quota_bytes = 10 * bytes;
    use.extent_bytes = bytes;
    use.tally.read_misses = 1;
  }
  tables.publish();
}

TEST_CASE("tenants of all shards are added up, named where they have a name") {
  const base::Config config = two_tenants();
  const control::TenantRules rules(config, base::KeyHasher(5));
  const base::TenantId standard = rules.tenants()[0].id;
  const base::TenantId blue = rules.tenants()[1].id;
  TenantTables first({std::vector<store::TenantUse>(4), 0});
  TenantTables second({std::vector<store::TenantUse>(4), 0});
  const StoreTenants tenants({&first, &second}, rules);
  CHECK(tenants.rows().empty());
  CHECK(tenants.json() == "[]");
  control::MetricsText nothing;
  tenants.write_metrics(nothing);
  CHECK(nothing.text().empty());

  fill(first, {blue, standard}, 100);
  fill(second, {blue, {0x00ab}}, 1000);
  const auto rows = nlohmann::json::parse(tenants.json());
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["tenant"] == "#00000000000000ab");
  CHECK(rows[0]["extent_bytes"] == 1000);
  CHECK(rows[1]["tenant"] == "blue");
  CHECK(rows[1]["extent_bytes"] == 1100);
  CHECK(rows[1]["quota_bytes"] == 11000);
  CHECK(rows[1]["read_misses"] == 2);
  CHECK(rows[1]["weight"] == 3);
  CHECK(rows[2]["tenant"] == "default");
  CHECK(rows[2]["extent_bytes"] == 100);

  control::MetricsText text;
  tenants.write_metrics(text);
  CHECK(text.text().find("\nsimm_store_tenant_used_bytes{tenant=\"blue\"} 1100\n") !=
        std::string::npos);
  CHECK(text.text().find("# TYPE simm_store_tenant_read_misses_total counter\n") !=
        std::string::npos);

  // Who is not there any more is not shown any more.
  fill(second, {blue}, 1);
  CHECK(tenants.rows().size() == 2);
}

TEST_CASE(
    "however many tenants other daemons have, the labels are bounded, and nothing is left out") {
  const base::Config config = two_tenants();
  const control::TenantRules rules(config, base::KeyHasher(5));
  constexpr std::uint64_t kTenants = 100;
  TenantTables tables({std::vector<store::TenantUse>(kTenants + 1), 0});
  const StoreTenants tenants({&tables}, rules);
  std::vector<base::TenantId> ids;
  for (std::uint64_t id = 1; id <= kTenants; ++id) ids.push_back({id});
  ids.push_back(rules.tenants()[1].id);
  fill(tables, ids, 10);
  std::uint64_t bytes = 0;
  std::uint64_t of_others = 0;
  bool is_named = false;
  const auto rows = tenants.rows();
  CHECK(rows.size() == StoreTenants::kShownMax);  // less the default one, and with "#others"
  for (const StoreTenants::Row& row : rows) {
    bytes += row.use.extent_bytes;
    is_named = is_named || row.name == "blue";
    if (row.name == "#others") of_others = row.use.extent_bytes;
  }
  CHECK(is_named);
  CHECK(bytes == 10 * ids.size());
  CHECK(of_others == 10 * (kTenants + 2 - StoreTenants::kShownMax));
}

}  // namespace store_tenants_test
