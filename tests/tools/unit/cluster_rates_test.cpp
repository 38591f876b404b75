#include "daemon/tools/simmctl/cluster_rates.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace cluster_rates_test {

using nlohmann::ordered_json;
using namespace simm::ctl;

ordered_json node(const std::string& name, const std::string& life, std::uint64_t taken_ms,
                  const ordered_json& counters) {
  return {{"name", name},
          {"role", "node"},
          {"state", "live"},
          {"incarnation", life},
          {"weight_bytes", 1000},
          {"used_bytes", 250},
          {"load", {{"taken_ms", taken_ms}, {"counters", counters}}}};
}

// Braces around one JSON value would be that value, not an array of it.
ordered_json update(ClusterRates& rates, const std::vector<ordered_json>& nodes) {
  return rates.update(nodes);
}

TEST_CASE("rates are of the time between two heartbeats, and stay until the next") {
  ClusterRates rates;
  ordered_json rows = update(rates, {node("a", "1", 500, {{"engine.0.pages", 10}})});
  CHECK(rows[0]["pages_per_s"].is_null());
  CHECK(rows[0]["pool_bytes"] == 1000);
  rows = update(rates, {node("a", "1", 1500, {{"engine.0.pages", 40}, {"tcp.0.sent_bytes", 8}})});
  CHECK(rows[0]["pages_per_s"] == 30.0);
  CHECK(rows[0]["out_bytes_per_s"] == 8.0);
  rows = update(rates, {node("a", "1", 1500, {{"engine.0.pages", 40}})});
  CHECK(rows[0]["pages_per_s"] == 30.0);
  rows = update(rates, {node("a", "1", 3500, {{"engine.0.pages", 40}})});
  CHECK(rows[0]["pages_per_s"] == 0.0);
}

TEST_CASE("another life of a daemon begins anew, and so does one that was forgotten") {
  ClusterRates rates;
  update(rates, {node("a", "1", 500, {{"engine.0.pages", 10}})});
  CHECK(update(rates, {node("a", "2", 900, {{"engine.0.pages", 5}})})[0]["pages_per_s"].is_null());
  CHECK(update(rates, {node("a", "2", 1900, {{"engine.0.pages", 7}})})[0]["pages_per_s"] == 2.0);
  update(rates, {});
  CHECK(update(rates, {node("a", "2", 2900, {{"engine.0.pages", 9}})})[0]["pages_per_s"].is_null());
}

TEST_CASE("a daemon of an older release has a row without rates") {
  ClusterRates rates;
  ordered_json old = node("a", "1", 500, {});
  old["load"] = nullptr;
  const ordered_json first = update(rates, {old});
  old.erase("load");
  for (const ordered_json& row : {first[0], update(rates, {old})[0]}) {
    CHECK(row["used_bytes"] == 250);
    CHECK(row["sessions"].is_null());
    CHECK(row["batch_p99_us"].is_null());
  }
  const ordered_json totals = totals_of(first);
  CHECK(totals["sessions"] == 0);
  CHECK(totals["pages_per_s"] == 0.0);
  CHECK(totals["hit_percent"].is_null());
}

TEST_CASE("the hit rate of a cluster is that of its pages, not the mean of its daemons") {
  ClusterRates rates;
  update(rates, {node("a", "1", 1000, {}), node("b", "1", 1000, {})});
  const ordered_json rows =
      update(rates, {node("a", "1", 2000,
                          {{"engine.0.op.get.pages.ok", 90}, {"engine.0.complete_ns.log2_10", 1}}),
                     node("b", "1", 2000,
                          {{"engine.0.op.get.pages.", 10}, {"engine.0.complete_ns.log2_20", 1}})});
  CHECK(rows[1]["hit_percent"] == 0.0);
  const ordered_json totals = totals_of(rows);
  CHECK(totals["hit_percent"] == 90.0);
  CHECK(totals["worst_batch_p99_us"] == 1048.6);
  CHECK(totals["daemons"] == 2);
  CHECK(totals["states"] == ordered_json::parse(R"({"live":2})"));
  CHECK(totals["pool_bytes"] == 2000);
}

}  // namespace cluster_rates_test
