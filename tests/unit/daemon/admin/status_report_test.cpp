#include "daemon/admin/status_report.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/manual_clock.h"

namespace status_report_test {

using namespace simm;
using base::AdminCommand;
using nlohmann::json;

// Answers at once, but for the commands that are to wait.
struct Source final : control::AdminSource {
  [[nodiscard]] base::AdminScope scope() const noexcept override { return of; }
  void report(AdminCommand command, std::string_view argument,
              control::AdminAnswer answer) override {
    const std::string name(base::row_of(command).name);
    asked.push_back(name + std::string(argument));
    if (waits.count(command) != 0) return waiting.push_back(std::move(answer));
    if (errors.count(command) != 0) return answer(Error{Status::invalid_state, errors.at(command)});
    if (command == AdminCommand::nodes && argument != "+b" && has_pages) {
      return answer(std::string(R"({"epoch":1,"next":"b","nodes":[{"name":"a"},{"name":"b"}]})"));
    }
    answer("{\"all\":\"" + name + "\"}");
  }
  [[nodiscard]] Expected<std::string> report_without_names(AdminCommand command,
                                                           std::string_view argument) override {
    asked.push_back("nameless " + std::string(base::row_of(command).name) + std::string(argument));
    return std::string("{\"some\":1}");
  }

  base::AdminScope of = base::AdminScope::data;
  bool has_pages = false;
  std::map<AdminCommand, int> waits;
  std::map<AdminCommand, std::string> errors;
  std::vector<control::AdminAnswer> waiting;
  std::vector<std::string> asked;
};

struct World {
  explicit World(bool names) : report(io, clock, source) { report.choose_parts(names); }
  // What is told at once.
  json told() {
    std::optional<json> answer;
    report.tell(
        [&answer](const control::StatusSource::Text& text) { answer = json::parse(*text); });
    REQUIRE(answer.has_value());
    return *answer;
  }
  void poll() {
    io.restart();
    if (io.poll() == 0) ::usleep(500);
  }
  void later() { clock.advance_ns(control::StatusReport::kKeptNs); }

  boost::asio::io_context io;
  base::ManualClock clock;
  Source source;
  control::StatusReport report;
};

std::vector<std::string> names_of(const json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

TEST_CASE("with names every report is shown whole; without them only what has none") {
  World named(true);
  const json all = named.told();
  CHECK(all["names"] == true);
  CHECK(names_of(all["reports"]) ==
        std::vector<std::string>{"errors", "events", "gpus", "hot", "moves", "nics", "nodes",
                                 "peers", "slots", "status", "store_tenants", "tenants", "totals"});
  CHECK(all["reports"]["status"]["all"] == "status");
  CHECK(all["trouble"].empty());
  World nameless(false);
  const json some = nameless.told();
  CHECK(some["names"] == false);
  CHECK(names_of(some["reports"]) == std::vector<std::string>{"events", "gpus", "hot", "moves",
                                                              "nics", "nodes", "peers", "slots",
                                                              "status", "totals"});
  CHECK(some["reports"]["status"] == json{{"some", 1}});
  CHECK(some["reports"]["events"] == json{{"some", 1}});
  CHECK(some["reports"]["hot"] == json{{"some", 1}});
  for (const std::string& question : nameless.source.asked) {
    CHECK(question.find("tenants") == std::string::npos);
    CHECK(question != "status");
    CHECK(question.rfind("events", 0) != 0);
    CHECK(question != "hot");
  }
}

TEST_CASE("a manager has the reports of a manager") {
  World world(false);
  world.source.of = base::AdminScope::everywhere;
  control::StatusReport report(world.io, world.clock, world.source);
  report.choose_parts(true);
  json answer;
  report.tell([&answer](const control::StatusSource::Text& text) { answer = json::parse(*text); });
  CHECK(names_of(answer["reports"]) ==
        std::vector<std::string>{"errors", "events", "nodes", "slots", "status", "totals"});
}

TEST_CASE("a text is made once in a second, whoever asks how often") {
  World world(true);
  world.told();
  const std::size_t questions = world.source.asked.size();
  for (int i = 0; i < 100; ++i) world.told();
  CHECK(world.source.asked.size() == questions);
  world.later();
  for (int i = 0; i < 100; ++i) world.told();
  CHECK(world.source.asked.size() == 2 * questions);
}

TEST_CASE("those who ask while an answer is awaited get the same text, when it is there") {
  World world(true);
  world.source.waits[AdminCommand::nodes] = 1;
  std::vector<control::StatusSource::Text> texts;
  for (int i = 0; i < 3; ++i) {
    world.report.tell([&texts](control::StatusSource::Text text) { texts.push_back(text); });
  }
  CHECK(texts.empty());
  REQUIRE(world.source.waiting.size() == 1);
  world.source.waiting[0](std::string(R"({"nodes":[]})"));
  REQUIRE(texts.size() == 3);
  CHECK(texts[0] == texts[2]);
  CHECK(json::parse(*texts[0])["reports"]["nodes"] ==
        json::array({json{{"nodes", json::array()}}}));
}

TEST_CASE("a part without an answer is missing, with the reason, and is shown when it came late") {
  World world(true);
  world.source.waits[AdminCommand::slots] = 1;
  world.source.errors[AdminCommand::nodes] = "no manager: \"x\"";
  json answer;
  const auto tell = [&] {
    answer = json();
    world.report.tell([&answer](const auto& text) { answer = json::parse(*text); });
  };
  tell();
  CHECK(answer.is_null());
  for (int turn = 0; turn < 20'000 && answer.is_null(); ++turn) world.poll();
  REQUIRE_FALSE(answer.is_null());
  CHECK(answer["trouble"]["nodes"] == "no manager: \"x\"");
  CHECK(answer["trouble"]["slots"] == "no answer within 800 ms");
  CHECK(answer["reports"].count("slots") == 0);
  CHECK(answer["reports"].count("status") == 1);
  // Who is slow has one question, however often the page is looked at.
  world.later();
  tell();
  for (int turn = 0; turn < 20'000 && answer.is_null(); ++turn) world.poll();
  CHECK(world.source.waiting.size() == 1);
  world.source.waiting[0](std::string("{\"late\":1}"));
  world.later();
  tell();
  REQUIRE_FALSE(answer.is_null());
  CHECK(answer["reports"]["slots"] == json{{"late", 1}});
  // After that the question is asked anew.
  world.source.waits.clear();
  world.later();
  tell();
  CHECK(answer["reports"]["slots"] == json{{"all", "slots"}});
}

TEST_CASE("nodes come page by page, and never without end") {
  World world(true);
  world.source.has_pages = true;
  const json pages = world.told()["reports"]["nodes"];
  REQUIRE(pages.size() == 2);
  CHECK(pages[0]["nodes"][1]["name"] == "b");
  CHECK(pages[1] == json{{"all", "nodes"}});
  // A manager that always names a next page.
  struct Endless final : control::AdminSource {
    [[nodiscard]] base::AdminScope scope() const noexcept override {
      return base::AdminScope::data;
    }
    void report(AdminCommand, std::string_view, control::AdminAnswer answer) override {
      ++asked;
      answer(std::string(R"({"next":"a","nodes":[]})"));
    }
    [[nodiscard]] Expected<std::string> report_without_names(AdminCommand,
                                                             std::string_view) override {
      return std::string("1");
    }
    int asked = 0;
  } endless;
  control::StatusReport report(world.io, world.clock, endless);
  report.choose_parts(true);
  json answer;
  report.tell([&answer](const control::StatusSource::Text& text) { answer = json::parse(*text); });
  CHECK(answer["reports"]["nodes"].size() == control::StatusReport::kNodesPagesMax);
}

// A cluster of which some members drain.
struct Draining final : control::AdminSource {
  [[nodiscard]] base::AdminScope scope() const noexcept override { return base::AdminScope::data; }
  void report(AdminCommand command, std::string_view argument,
              control::AdminAnswer answer) override {
    if (command == AdminCommand::nodes) {
      json nodes = json::array();
      for (const auto& [name, state] : members) {
        nodes.push_back({{"role", "storage"}, {"name", name}, {"state", state}});
      }
      return answer(json{{"nodes", nodes}}.dump());
    }
    if (command != AdminCommand::moves || argument.empty()) return answer(std::string("{}"));
    asked.emplace_back(argument);
    if (argument == "storage/silent") {
      waiting = std::move(answer);
      return;
    }
    if (argument == "storage/old") return answer(Error{Status::incompatible, "too old"});
    answer(json{{"of", argument}}.dump());
  }
  [[nodiscard]] Expected<std::string> report_without_names(AdminCommand,
                                                           std::string_view) override {
    return std::string("{}");
  }
  std::map<std::string, std::string> members;
  std::vector<std::string> asked;
  control::AdminAnswer waiting;
};

struct DrainingWorld : World {
  DrainingWorld() : World(true), drains(io, clock, cluster) { drains.choose_parts(false); }
  json told_of_drains() {
    json answer;
    drains.tell([&answer](const auto& text) { answer = json::parse(*text); });
    for (int turn = 0; turn < 20'000 && answer.is_null(); ++turn) poll();
    later();
    return answer;
  }
  Draining cluster;
  control::StatusReport drains;
};

TEST_CASE("members that drain are asked how far they are; nobody else is") {
  DrainingWorld world;
  world.cluster.members = {{"a", "live"}, {"b\",\"state\":\"draining\"", "live"}, {"c", "away"}};
  CHECK(world.told_of_drains()["reports"].count("drains") == 0);
  CHECK(world.cluster.asked.empty());
  world.cluster.members = {{"a", "draining"}, {"b", "live"}, {"\"c\"", "draining"}};
  const json drains = world.told_of_drains()["reports"]["drains"];
  CHECK(drains ==
        json{{"storage/a", {{"of", "storage/a"}}}, {"storage/\"c\"", {{"of", "storage/\"c\""}}}});
  CHECK(world.cluster.asked.size() == 2);
  // Who has ended is not shown any more.
  world.cluster.members = {{"a", "live"}};
  CHECK(world.told_of_drains()["reports"].count("drains") == 0);
}

TEST_CASE("one that can not be asked is said, and hides no other") {
  DrainingWorld world;
  world.cluster.members = {{"a", "draining"}, {"old", "draining"}};
  const json answer = world.told_of_drains();
  CHECK(answer["trouble"]["drains"] == "storage/old: too old");
  CHECK(names_of(answer["reports"]["drains"]) == std::vector<std::string>{"storage/a"});
}

TEST_CASE("of many members that drain some are asked, and one that is silent costs its row alone") {
  DrainingWorld world;
  for (int i = 0; i < 100; ++i) world.cluster.members["m" + std::to_string(i)] = "draining";
  CHECK(world.told_of_drains()["reports"]["drains"].size() == control::StatusReport::kDrainsMax);
  world.cluster.asked.clear();
  world.cluster.members = {{"a", "draining"}, {"silent", "draining"}};
  for (int round = 0; round < 2; ++round) {
    const json answer = world.told_of_drains();
    CHECK(answer["trouble"]["drains"] == "storage/silent: no answer within 800 ms");
    CHECK(names_of(answer["reports"]["drains"]) == std::vector<std::string>{"storage/a"});
    CHECK(answer["reports"].count("nodes") == 1);
  }
  // The silent one was asked once.
  CHECK(world.cluster.asked ==
        std::vector<std::string>{"storage/a", "storage/silent", "storage/a"});
  world.cluster.waiting(std::string("{}"));
  const json later = world.told_of_drains();
  CHECK(later["trouble"].empty() == false);  // it is asked anew
  CHECK(world.cluster.asked.size() == 5);
}

TEST_CASE("answers may come when the report is gone") {
  Source source;
  source.waits[AdminCommand::peers] = 1;
  {
    boost::asio::io_context io;
    base::ManualClock clock;
    control::StatusReport report(io, clock, source);
    report.choose_parts(true);
    report.tell([](const control::StatusSource::Text&) { FAIL("nobody waits any more"); });
  }
  REQUIRE(source.waiting.size() == 1);
  source.waiting[0](std::string("{}"));
}

}  // namespace status_report_test
