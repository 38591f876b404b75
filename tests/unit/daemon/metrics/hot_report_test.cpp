#include "daemon/metrics/hot_report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hot_report_test {

using namespace simm;
using base::HotList;
using base::HotTables;
using base::SpaceSaving;
using control::HotReport;
using nlohmann::json;

void add(HotList& list, const base::HotKey& key, std::uint32_t count, std::uint32_t error = 0) {
  list.entries[list.count++] = {key, count, error};
  list.total += count;
}

base::HotKey key_of(std::uint64_t number, base::TenantId tenant, base::NamespaceId name_space) {
  return {{number, 0xfeed}, tenant, name_space};
}

struct Fixture {
  base::Config config = base::default_config();
  control::TenantRules rules{config, base::KeyHasher(5)};
  base::TenantId standard = rules.tenants()[0].id;
  base::NamespaceId no_name = rules.namespace_id("");
};

TEST_CASE("hot report: shares of each shard and of all, the hottest key first, without its name") {
  Fixture f;
  HotTables first;
  HotTables second;
  const HotReport report({&first, nullptr, &second}, f.rules, "node-7");
  CHECK(json::parse(report.json())["keys"].empty());
  CHECK(json::parse(report.json())["shards"].size() == 2);
  control::MetricsText nothing;  // but the families, which are there from the start
  report.write_metrics(nothing);
  CHECK(nothing.text().find("simm_hottest_key_requests_ratio{agent=\"0\"} 0\n") !=
        std::string::npos);

  base::HotTable& one = first.back();
  add(one.requests, key_of(1, f.standard, f.no_name), 300, 60);
  add(one.requests, key_of(2, {0xab}, {0xcd}), 100);
  add(one.bytes, key_of(2, {0xab}, {0xcd}), 1000);
  first.publish();
  base::HotTable& two = second.back();
  add(two.requests, key_of(3, f.standard, f.no_name), 200);
  second.publish();

  const json told = json::parse(report.json());
  REQUIRE(told["keys"].size() == 3);
  // For strangers the same, but whose they are.
  const json nameless = json::parse(report.json(HotReport::Names::left_out));
  CHECK(nameless["shards"] == told["shards"]);
  REQUIRE(nameless["keys"].size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    json key = told["keys"][i];
    CHECK(key.erase("tenant") == 1);
    CHECK(key.erase("namespace") == 1);
    CHECK(nameless["keys"][i] == key);
  }
  const json& bytes = told["keys"][0];  // all bytes there are
  CHECK(bytes["key_hash"] == "000000000000feed0000000000000002");
  CHECK(bytes["tenant"] == "#00000000000000ab");
  CHECK(bytes["namespace"] == "#00000000000000cd");
  CHECK(bytes["bytes_percent"] == 100.0);
  CHECK(bytes["requests_percent"] == 16.67);
  CHECK(bytes["requests_percent_of_shard"] == 25.0);
  const json& pages = told["keys"][1];
  CHECK(pages["tenant"] == "default");
  CHECK(pages["namespace"] == "(default)");
  CHECK(pages["owner"] == "node-7");
  CHECK(pages["shard"] == 0);
  CHECK(pages["requests_percent"] == 50.0);
  CHECK(pages["requests_percent_min"] == 40.0);
  CHECK(pages["requests_percent_of_shard"] == 75.0);
  CHECK(told["keys"][2]["shard"] == 2);
  CHECK(told["shards"][1]["requests_percent"] == 100.0);

  control::MetricsText text;
  report.write_metrics(text);
  CHECK(text.text().find("simm_hottest_key_requests_ratio{agent=\"0\"} 0.75\n") !=
        std::string::npos);
  CHECK(text.text().find("simm_hottest_key_requests_ratio{agent=\"2\"} 1\n") != std::string::npos);
  CHECK(text.text().find("simm_hottest_key_bytes_ratio{agent=\"2\"} 0\n") != std::string::npos);
  CHECK(text.text().find("feed") == std::string::npos);
}

TEST_CASE("hot report: however many shards and keys there are, the list is bounded") {
  Fixture f;
  std::vector<std::unique_ptr<HotTables>> tables;
  std::vector<HotTables*> shown;
  for (std::uint64_t shard = 0; shard < 8; ++shard) {
    HotTables& added = *tables.emplace_back(std::make_unique<HotTables>());
    base::HotTable& table = added.back();
    for (std::uint64_t i = 0; i < SpaceSaving::kHotKeysCounted; ++i) {
      add(table.requests, key_of(shard << 32 | i, {i}, {i}), std::uint32_t(shard + 1));
      add(table.bytes, key_of(shard << 32 | i | 1 << 20, {i}, {i}), 1);
    }
    added.publish();
    shown.push_back(&added);
  }
  const json told = json::parse(HotReport(shown, f.rules, "self").json());
  CHECK(told["keys"].size() == HotReport::kKeysShownMax);
  CHECK(told["keys"][0]["shard"] == 7);
  CHECK(told["shards"].size() == 8);
  control::MetricsText text;
  HotReport(shown, f.rules, "self").write_metrics(text);
  CHECK(std::count(text.text().begin(), text.text().end(), '\n') == 2 * (2 + 8));
}

}  // namespace hot_report_test
