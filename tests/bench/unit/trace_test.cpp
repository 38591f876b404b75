#include "daemon/tools/simm-bench/trace.h"

#include <doctest/doctest.h>

#include <sstream>

namespace simm::bench::trace_test {

Expected<Trace> read_text(const std::string& text) {
  std::istringstream stream(text);
  return read_trace(stream, "t.jsonl");
}

std::string line(const std::string& timestamp, const std::string& input,
                 const std::string& hash_ids) {
  return "{\"timestamp\": " + timestamp + ", \"input_length\": " + input +
         ", \"output_length\": 7, \"hash_ids\": " + hash_ids + "}\n";
}

TEST_CASE("a trace is read in order, blank lines and unknown fields are skipped") {
  const Expected<Trace> trace =
      read_text(line("0", "600", "[0, 1]") + "\n" +
                "{\"timestamp\": 5, \"x\": 1, \"input_length\": 1, \"output_length\": 2, "
                "\"hash_ids\": [18446744073709551615]}\n");
  REQUIRE(trace);
  REQUIRE(trace->size() == 2);
  CHECK((*trace)[0].input_tokens == 600);
  CHECK((*trace)[0].block_ids == std::vector<std::uint64_t>{0, 1});
  CHECK((*trace)[1].timestamp_ms == 5);
  CHECK((*trace)[1].block_ids == std::vector<std::uint64_t>{~std::uint64_t{0}});
}

TEST_CASE("what is written is read back") {
  Trace trace;
  trace.push_back({0, 891, 3, {0, 1}});
  trace.push_back({3'000, 1'500, 1, {0, 2, 3}});
  std::ostringstream text;
  write_trace(text, trace);
  const Expected<Trace> again = read_text(text.str());
  REQUIRE(again);
  REQUIRE(again->size() == 2);
  CHECK((*again)[1].timestamp_ms == 3'000);
  CHECK((*again)[1].input_tokens == 1'500);
  CHECK((*again)[1].output_tokens == 1);
  CHECK((*again)[1].block_ids == trace[1].block_ids);
}

TEST_CASE("an error names file, line, field, value and remedy") {
  struct Case {
    std::string text;
    const char* place;
    const char* field;
    const char* value;
  };
  const std::string good = line("9", "600", "[0, 1]");
  const Case cases[] = {
      {good + "hello\n", "t.jsonl:2:", "(line)", "hello"},
      {good + "[1, 2]\n", "t.jsonl:2:", "(line)", "[1, 2]"},
      {good + line("8", "600", "[0]"), "t.jsonl:2:", "timestamp", "8"},
      {line("-1", "600", "[0]"), "t.jsonl:1:", "timestamp", "-1"},
      {line("0", "1.5", "[0]"), "t.jsonl:1:", "input_length", "1.5"},
      {line("0", "99999999999", "[0]"), "t.jsonl:1:", "input_length", "99999999999"},
      {line("0", "\"600\"", "[0]"), "t.jsonl:1:", "input_length", "\"600\""},
      {line("0", "600", "[]"), "t.jsonl:1:", "hash_ids", "[]"},
      {line("0", "600", "7"), "t.jsonl:1:", "hash_ids", "7"},
      {line("0", "600", "[0, -3]"), "t.jsonl:1:", "hash_ids[1]", "-3"},
      {"{\"timestamp\": 0, \"input_length\": 1, \"hash_ids\": [0]}", "t.jsonl:1:", "output_length",
       "missing"},
      {"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}", "t.jsonl:1:", "hash_ids",
       "missing"},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.text);
    const Expected<Trace> trace = read_text(bad.text);
    REQUIRE_FALSE(trace);
    const std::string& context = trace.error().context;
    CAPTURE(context);
    CHECK(trace.status() == Status::invalid_argument);
    CHECK(context.rfind(bad.place, 0) == 0);
    CHECK(context.find("field '" + std::string(bad.field) + "'") != std::string::npos);
    CHECK(context.find(bad.value) != std::string::npos);
    CHECK(context.find(": ", context.find(bad.value)) != std::string::npos);
  }
}

TEST_CASE("a file that is absent, empty or a directory is an error with a remedy") {
  for (const char* path : {"/nonexistent/trace.jsonl", "/dev/null", "/tmp"}) {
    CAPTURE(path);
    const Expected<Trace> trace = read_trace(path);
    REQUIRE_FALSE(trace);
    CHECK(trace.error().context.find(path) == 0);
  }
}

}  // namespace simm::bench::trace_test
