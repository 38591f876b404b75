#include "daemon/control/counter_totals.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace counter_totals_test {

using namespace simm;
using nlohmann::json;

TEST_CASE("counters of data agents are added up under one name, all others stay as they are") {
  base::CounterSet counters;
  counters.counter("engine.0.batches").set(3);
  counters.counter("engine.1.batches").set(4);
  counters.counter("engine.10.op.get.pages.ok").set(5);
  counters.counter("gpu.0.copies").set(6);
  counters.counter("gpu.1.copies").set(7);
  counters.counter("rdma.rail.0.lost").set(8);
  counters.counter("runner.data0.turns").set(9);
  counters.counter("limit.descriptors.reached").set(10);
  counters.counter("odd.7").set(11);
  control::CounterTotals totals(counters);
  CHECK(json::parse(totals.text()) == json{{"engine.batches", 7},
                                           {"engine.op.get.pages.ok", 5},
                                           {"gpu.0.copies", 6},
                                           {"gpu.1.copies", 7},
                                           {"rdma.rail.0.lost", 8},
                                           {"runner.data0.turns", 9},
                                           {"limit.descriptors.reached", 10},
                                           {"odd.7", 11},
                                           {"counters.refused", 0}});
}

TEST_CASE("of what can not be added the largest is shown") {
  base::CounterSet counters;
  const char* const names[] = {"session.%.entries_max", "store.%.largest_hole_bytes",
                               "scrub.%.pass_ns", "scrub.%.progress_permille"};
  for (const std::string name : names) {
    for (const char agent : {'0', '1', '2'}) {
      std::string of_agent = name;
      of_agent[of_agent.find('%')] = agent;
      counters.counter(of_agent).set(agent == '1' ? 50U : 20U);
    }
  }
  control::CounterTotals totals(counters);
  const json all = json::parse(totals.text());
  for (std::string name : names) {
    name.erase(name.find('%'), 2);
    CHECK(all.at(name) == 50);
  }
}

TEST_CASE("what is registered, or counted, later is there the next time") {
  base::CounterSet counters;
  base::Counter pages = counters.counter("server.0.pages");
  control::CounterTotals totals(counters);
  CHECK(json::parse(totals.text()).at("server.pages") == 0);
  pages.add(2);
  counters.counter("server.1.pages").add(3);
  counters.counter("late").add(1);
  const json all = json::parse(totals.text());
  CHECK(all.at("server.pages") == 5);
  CHECK(all.at("late") == 1);
}

}  // namespace counter_totals_test
