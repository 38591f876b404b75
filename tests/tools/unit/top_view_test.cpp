#include "daemon/tools/simmctl/top_view.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "daemon/tools/simmctl/cluster_rates.h"
#include "daemon/tools/simmctl/load.h"

namespace top_view_test {

using nlohmann::ordered_json;
using namespace simm::ctl;

std::string text_of(const std::vector<Line>& lines, std::size_t columns = 120) {
  std::string text;
  for (const Line& line : lines) text += text_of_line(line, columns, false) + "\n";
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TopLook daemon_look(const ordered_json& counters, const std::vector<std::string>& tenants) {
  TopLook look = rates_of({}, load_of(counters), 1);
  look["daemon"] = {{"role", "all"}, {"pid", 7}, {"uptime_ms", 61'000}, {"version", "1.2.3"}};
  look["tenants"] = ordered_json::array();
  double got = 10;
  for (const std::string& name : tenants) {
    look["tenants"].push_back({{"tenant", name},
                               {"got_bytes_per_s", got *= 10},
                               {"put_bytes_per_s", 5.0},
                               {"held_per_s", 1.0}});
  }
  return look;
}

TopLook cluster_look(std::size_t daemons) {
  ordered_json nodes = ordered_json::array();
  for (std::size_t i = 0; i < daemons; ++i) {
    nodes.push_back({{"name", "daemon-" + std::to_string(100 + i)},
                     {"role", "storage"},
                     {"state", i == 0 ? "away" : "live"},
                     {"weight_bytes", 1 << 20},
                     {"used_bytes", 1000 * (i + 1)}});
  }
  TopLook look;
  look["daemon"] = {{"role", "manager"}, {"pid", 7}, {"uptime_ms", 1}, {"version", "1.2.3"}};
  look["epoch"] = 12;
  look["nodes"] = ClusterRates().update(nodes);
  look["totals"] = totals_of(look["nodes"]);
  return look;
}

TEST_CASE("numbers in six characters at most") {
  CHECK(short_count(nullptr) == "-");
  CHECK(short_count(0) == "0");
  CHECK(short_count(9.5) == "9.5");
  CHECK(short_count(999) == "999");
  CHECK(short_count(999.6) == "1.0k");
  CHECK(short_count(12'345) == "12.3k");
  CHECK(short_count(1e30) == "1000000000000E");
  CHECK(short_bytes(1023) == "1023");
  CHECK(short_bytes(1024) == "1.0K");
  CHECK(short_bytes(64.0 * 1024 * 1024) == "64.0M");
  CHECK(short_bytes(1.5 * 1024 * 1024 * 1024) == "1.5G");
  CHECK(short_us(65.5) == "65.5us");
  CHECK(short_us(1048.6) == "1.0ms");
  CHECK(short_us(4'000'000) == "4s");
  CHECK(short_time(12'999) == "12s");
  CHECK(short_time(450'000) == "7m30s");
  CHECK(short_time(7'500'000) == "2h05m");
  CHECK(short_time(273'600'000) == "3d04h");
}

TEST_CASE("bars are as long as their share, whatever that is") {
  CHECK(bar(0, 12) == "[          ]");
  CHECK(bar(0.5, 12) == "[#####     ]");
  CHECK(bar(7, 12) == "[##########]");
  CHECK(bar(-1, 12) == "[          ]");
  CHECK(bar(0.0 / 0.0, 12) == "[          ]");
  CHECK(bar(1, 2) == "  ");
}

TEST_CASE("no line is longer than the terminal, and no escape sequence is cut") {
  const Line line = {{"abc", Paint::title}, {"defgh", Paint::bad}};
  CHECK(text_of_line(line, 8, false) == "abcdefgh");
  CHECK(text_of_line(line, 7, false) == "abcdef~");
  CHECK(text_of_line(line, 3, false) == "ab~");
  CHECK(text_of_line(line, 1, false) == "~");
  CHECK(text_of_line(line, 0, false).empty());
  CHECK(text_of_line(line, 4, true) == "\033[1mabc\033[0m\033[31m~\033[0m");
}

TEST_CASE("a daemon without a pool shows no lines of one") {
  TopView view("name");
  const std::string text =
      text_of(view.lines(daemon_look({{"session.0.attached", 3}}, {"default"}), 120));
  CHECK(has(text, "simmd all, pid 7, up 1m01s, version 1.2.3"));
  CHECK(has(text, "3 sessions"));
  CHECK(has(text, "p50 < -,"));
  CHECK_FALSE(has(text, "pool"));
  CHECK_FALSE(has(text, "TENANT"));
  CHECK(has(text_of(view.lines(daemon_look({{"store.0.arena_bytes", 1 << 26}}, {}), 120)),
            "0 of 64.0M"));
}

TEST_CASE("names are escaped and cut: none moves the cursor or its line") {
  TopView view("got");
  const std::string wide = "\xe5\xae\xbd";
  const TopLook look = daemon_look({}, {"a\033[2J\n", wide + wide, std::string(500, 'x')});
  for (const std::size_t columns : {40U, 80U, 200U}) {
    for (const Line& line : view.screen(look, {columns, 24})) {
      const std::string text = text_of_line(line, columns, false);
      CHECK(text.size() <= columns);
      CHECK(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f; }));
    }
  }
  const std::string text = text_of(view.lines(look, 120));
  CHECK(has(text, "a\\x1b[2J\\x0a "));
  CHECK(has(text, "\\xe5\\xae\\xbd"));
  CHECK(has(text, "xxx~ "));
}

TEST_CASE("rows are sorted as a key says, and back") {
  TopView view("name");
  const TopLook look = daemon_look({}, {"blue", "amber", "cyan"});
  const auto names = [&] {
    const std::string text = text_of(view.lines(look, 120));
    const std::string rows = text.substr(text.find("TENANT"));
    std::string found;
    for (std::size_t at = 0; (at = rows.find('\n', at)) + 1 < rows.size(); ++at) {
      found += rows[at + 1];
    }
    return found;
  };
  CHECK(names() == "abc");
  CHECK(view.on_key('g', {80, 24}));
  CHECK(names() == "cab");
  CHECK(view.on_key('r', {80, 24}));
  CHECK(names() == "bac");
  CHECK_FALSE(view.on_key('x', {80, 24}));
}

TEST_CASE("a screen has as many lines as the terminal, and what does not fit is scrolled to") {
  const TopLook look = cluster_look(30);
  for (const ScreenSize size : {ScreenSize{80, 24}, ScreenSize{40, 10}, ScreenSize{200, 50}}) {
    TopView view("name");
    std::vector<Line> screen = view.screen(look, size);
    CHECK(screen.size() == size.rows);
    std::string text = text_of(screen, size.columns);
    CHECK(has(text, "30 daemons"));
    CHECK(has(text, "q quit"));
    CHECK(has(text, "daemon-100"));
    CHECK(has(text, "away"));
    if (size.rows == 50) continue;
    CHECK_FALSE(has(text, "daemon-129"));
    for (int i = 0; i < 40; ++i) view.on_key(i % 2 == 0 ? ' ' : 'j', size);
    // With few rows the sums stand below the daemons.
    text = text_of(view.screen(look, size), size.columns);
    CHECK(has(text, size.rows == 10 ? "hits" : "daemon-129"));
    for (int i = 0; i < 40; ++i) view.on_key('b', size);
    CHECK(has(text_of(view.screen(look, size), size.columns), "daemon-100"));
  }
}

TEST_CASE("the smallest terminals break nothing") {
  const TopLook looks[] = {cluster_look(3), daemon_look({}, {"a", "b"})};
  for (const TopLook& look : looks) {
    for (std::size_t columns = 1; columns < 45; ++columns) {
      for (std::size_t rows = 1; rows < 14; ++rows) {
        TopView view("used");
        view.set_trouble("no daemon");
        const std::vector<Line> screen = view.screen(look, {columns, rows});
        CHECK(screen.size() <= rows);
        for (const Line& line : screen) CHECK(text_of_line(line, columns, false).size() <= columns);
      }
    }
  }
}

TEST_CASE("what is waited for stands below the title, and goes away") {
  TopView view("name");
  const TopLook look = daemon_look({}, {});
  view.set_trouble("no daemon at /x\033[1m");
  CHECK(has(text_of(view.screen(look, {80, 5})), "waiting: no daemon at /x\\x1b[1m"));
  view.set_trouble("");
  CHECK_FALSE(has(text_of(view.screen(look, {80, 24})), "waiting"));
}

TEST_CASE("of a column that not all rows have those without come last") {
  TopLook look = cluster_look(3);
  look["nodes"][1]["hit_percent"] = 50.0;
  look["nodes"][2]["hit_percent"] = 70.0;
  TopView view("hits");
  const std::string text = text_of(view.lines(look, 120));
  CHECK(text.find("daemon-102") < text.find("daemon-101"));
  CHECK(text.find("daemon-101") < text.find("daemon-100"));
  CHECK(has(text, "*HIT%"));
}

}  // namespace top_view_test
