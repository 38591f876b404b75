// What simmctl may say of a drain, and what is refused.
#include "daemon/peers/drain_question.h"

#include <doctest/doctest.h>

#include <string>

namespace {

using simm::Status;
using simm::cluster::Topic;
using simm::control::drain_question;

}  // namespace

TEST_CASE("a drain has a daemon and a deadline, or is the end of one") {
  const auto own = drain_question("{}");
  REQUIRE(own.has_value());
  CHECK(own->topic == Topic::drain);
  CHECK(own->target.empty());
  CHECK_FALSE(own->is_named);
  const auto named = drain_question(R"({"daemon": "storage/a", "deadline_ms": 60000})");
  REQUIRE(named.has_value());
  CHECK(named->target == "storage/a");
  CHECK(named->is_named);
  CHECK(named->deadline_ms == 60'000);
  const auto end = drain_question(R"({"daemon": "", "cancel": true})");
  REQUIRE(end.has_value());
  CHECK(end->topic == Topic::cancel_drain);
  CHECK_FALSE(end->is_named);
}

TEST_CASE("what is no drain is refused, with the field at fault") {
  const std::string long_name(81, 'a');
  for (const std::string& wrong :
       {std::string(), std::string("drain"), std::string("[]"), std::string("{\"daemon\": 1}"),
        std::string("{\"deadline_ms\": -1}"), std::string("{\"deadline_ms\": 86400001}"),
        std::string("{\"deadline_ms\": 1.5}"), std::string("{\"cancel\": 1}"),
        std::string("{\"when\": \"now\"}"), std::string("{\"daemon\": \"a\\u0001\"}"),
        "{\"daemon\": \"" + long_name + "\"}",
        std::string("{\"cancel\": true, \"deadline_ms\": 5}"), std::string("{\"daemon\": \"a"),
        std::string(100'000, '[')}) {
    const auto refused = drain_question(wrong);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.status() == Status::invalid_argument);
    CHECK(refused.error().context.find("drain: ") == 0);
    CHECK(refused.error().context.size() < 512);
  }
  CHECK(drain_question("{\"when\": 1}").error().context.find("'when'") != std::string::npos);
}
