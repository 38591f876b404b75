#include "daemon/tools/simmctl/load.h"

#include <doctest/doctest.h>

#include <string>

#include "daemon/base/agent_counter.h"
#include "daemon/tools/simmctl/agent_table.h"

namespace load_test {

using nlohmann::ordered_json;
using simm::base::agent_counter;
using namespace simm::ctl;

TEST_CASE("the parts of an agent's counter") {
  const auto counter = agent_counter("store.12.lost_in_lease.removed");
  REQUIRE(counter.has_value());
  CHECK(counter->section == "store");
  CHECK(counter->agent == 12);
  CHECK(counter->name == "lost_in_lease.removed");
  for (const char* name :
       {"", "store", "store.", "store.1", "control.x.1", "store.1x.y", "s.-1.x"}) {
    CHECK_FALSE(agent_counter(name).has_value());
  }
}

TEST_CASE("a section by agent: every name, and a sum where there are several") {
  const ordered_json counters = {
      {"store.0.objects", 3}, {"store.1.objects", 4}, {"store.1.reads", 5}, {"storey.0.x", 9}};
  CHECK(table_by_agent(counters, "store") ==
        ordered_json::parse(R"([{"counter":"objects","store 0":3,"store 1":4,"all":7},
                                {"counter":"reads","store 0":0,"store 1":5,"all":5}])"));
  CHECK(table_by_agent({{"store.0.objects", 3}}, "store") ==
        ordered_json::parse(R"([{"counter":"objects","store 0":3}])"));
  CHECK(table_by_agent(counters, "shared_reads").empty());
}

TEST_CASE("rates are differences over all agents, by the time between") {
  const ordered_json first = {
      {"server.0.get_pages", 100}, {"server.1.get_pages", 50}, {"server.0.misses", 10}};
  const ordered_json second = {{"server.0.get_pages", 110},
                               {"server.1.get_pages", 80},
                               {"server.0.misses", 50},
                               {"engine.0.complete_ns.log2_12", 98},
                               {"engine.1.complete_ns.log2_20", 2},
                               {"store.0.objects", 7}};
  const ordered_json rates = rates_of(load_of(first), load_of(second), 2);
  CHECK(rates["pool"]["get_pages_per_s"] == 20.0);
  CHECK(rates["pool"]["get_hit_percent"] == 50.0);
  CHECK(rates["pool"]["exists_hit_percent"].is_null());
  CHECK(rates["pool"]["objects"] == 7);
  CHECK(rates["clients"]["batch_p50_us"] == 4.1);
  CHECK(rates["clients"]["batch_p99_us"] == 1048.6);
}

TEST_CASE("a page that a client got is a hit, with whatever other answer a miss") {
  const ordered_json rates = rates_of({},
                                      load_of({{"engine.0.op.get.pages.ok", 30},
                                               {"engine.1.op.get.pages.not_found", 9},
                                               {"engine.0.op.get.pages.timeout", 1},
                                               {"engine.0.op.exists.pages.ok", 500},
                                               {"engine.0.op.get.bytes", 4096},
                                               {"tcp.0.received_bytes", 10},
                                               {"rdma.1.written_bytes", 70}}),
                                      1);
  CHECK(rates["clients"]["hit_percent"] == 75.0);
  CHECK(rates["clients"]["missed_pages_per_s"] == 10.0);
  CHECK(rates["clients"]["got_bytes_per_s"] == 4096.0);
  CHECK(rates["network"]["tcp_in_bytes_per_s"] == 10.0);
  CHECK(rates["network"]["rdma_out_bytes_per_s"] == 70.0);
}

TEST_CASE("after a restart of the daemon there is no negative rate") {
  const ordered_json rates =
      rates_of(load_of({{"engine.0.pages", 1'000'000}}), load_of({{"engine.0.pages", 50}}), 1);
  CHECK(rates["clients"]["pages_per_s"] == 50.0);
}

TEST_CASE("tenants have rates of their own, and lines where there are several") {
  const ordered_json before =
      ordered_json::parse(R"([{"tenant":"blue","got_bytes":1000,"put_bytes":50,"held":4}])");
  const ordered_json after = ordered_json::parse(
      R"([{"tenant":"blue","got_bytes":3000,"put_bytes":50,"held":6},
          {"tenant":"red","got_bytes":0,"put_bytes":100,"held":0}])");
  const ordered_json rates = tenant_rates_of(before, after, 2);
  CHECK(rates[0]["got_bytes_per_s"] == 1000.0);
  CHECK(rates[0]["put_bytes_per_s"] == 0.0);
  CHECK(rates[0]["held_per_s"] == 1.0);
  CHECK(rates[1]["put_bytes_per_s"] == 50.0);
}

}  // namespace load_test
