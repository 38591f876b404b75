#include "daemon/tools/simmctl/chrome_trace.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "daemon/tools/simmctl/trace_command.h"

namespace chrome_trace_test {

using nlohmann::ordered_json;
using namespace simm::ctl;

ordered_json record(std::uint64_t id, const ordered_json& stamps, bool request = false) {
  return {{"agent", 0},     {"request", request}, {"id", id},           {"op", "get"},
          {"tenant", "t"},  {"pages", 2},         {"pages_ok", 1},      {"bytes", 4096},
          {"status", "ok"}, {"peer", "self"},     {"stamps_ns", stamps}};
}

ordered_json daemon(const ordered_json& records) {
  return {{"daemon", "all"}, {"pid", 42},    {"one_in", 1},       {"begun", 9},
          {"sampled", 2},    {"dropped", 0}, {"records", records}};
}

TEST_CASE("an operation is an event, and each stage one inside it") {
  const ordered_json trace = chrome_trace(
      {daemon(ordered_json::array({record(255, {1000, 2000, 3000, 0, 5000, 6000, 9000, 9500})}))});
  std::vector<ordered_json> complete;
  for (const ordered_json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") complete.push_back(event);
  }
  REQUIRE(complete.size() == 8);
  CHECK(complete[0]["name"] == "get");
  CHECK(complete[0]["ts"] == 1.0);
  CHECK(complete[0]["dur"] == 8.5);
  CHECK(complete[0]["args"]["id"] == "00000000000000ff");
  CHECK(complete[0]["args"]["result"] == "ok");
  double at = 1.0;
  for (std::size_t i = 1; i < complete.size(); ++i) {
    CHECK(complete[i]["ts"] == at);
    CHECK(complete[i]["tid"] == complete[0]["tid"]);
    at += complete[i]["dur"].get<double>();
  }
  CHECK(at == 9.5);
  CHECK(complete[3]["name"] == "queue");  // it was left out
  CHECK(complete[3]["dur"] == 0.0);
}

TEST_CASE("what overlaps lies on threads of its own, named after its agent") {
  const ordered_json trace = chrome_trace(
      {daemon(ordered_json::array({record(1, {1000, 1000, 1000, 1000, 1000, 1000, 1000, 5000}),
                                   record(2, {2000, 2000, 2000, 2000, 2000, 2000, 2000, 3000}),
                                   record(3, {6000, 6000, 6000, 6000, 6000, 6000, 6000, 7000}),
                                   record(1, {1500, 1600, 1700, 1800, 1900}, true)}))});
  std::map<std::string, ordered_json> thread_of;
  std::map<ordered_json, std::string> names;
  for (const ordered_json& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "operation") thread_of[event["args"]["id"]] = event["tid"];
    if (event.value("cat", "") == "request") thread_of["request"] = event["tid"];
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  }
  CHECK(names[thread_of["0000000000000001"]] == "agent 0");
  CHECK(names[thread_of["0000000000000002"]] == "agent 0 (2)");
  CHECK(names[thread_of["0000000000000003"]] == "agent 0");
  CHECK(names[thread_of["request"]] == "agent 0 shard");
}

TEST_CASE("how to say one of so many") {
  CHECK(one_in_of("1/64") == 64);
  CHECK(one_in_of("8") == 8);
  for (const char* wrong : {"", "1/", "1/0", "0", "2/3", "1/x", "-1", "1/99999999999"}) {
    CHECK(one_in_of(wrong) == 0);
  }
}

}  // namespace chrome_trace_test
