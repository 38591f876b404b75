#include "daemon/base/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/error_log.h"
#include "daemon/base/manual_clock.h"
#include "daemon/base/sanitize.h"

namespace log_test {

using namespace simm::base;

// A pipe whose content is read when the writer is done.
struct Pipe {
  Pipe() {
    REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
    ::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  std::string text() {
    std::string all;
    char block[4096];
    for (ssize_t got; (got = ::read(ends[0], block, sizeof block)) > 0;) {
      all.append(block, static_cast<std::size_t>(got));
    }
    return all;
  }
  int ends[2];
};

TEST_CASE("a line has a level, a component, a message and clean fields") {
  ManualClock clock;
  Pipe pipe;
  Log log(clock, LogLevel::info, pipe.ends[1], true);
  log.info("control", "attached", {{"session", 7}, {"path", "/a b\n<0>evil \"x\""}});
  log.debug("control", "too fine");
  CHECK(pipe.text() ==
        "<6>info control: attached session=7 path=\"/a b\\x0a<0>evil \\x22x\\x22\"\n");
}

TEST_CASE("outside the journal a line begins with its time instead of a priority") {
  ManualClock clock;
  Pipe pipe;
  Log log(clock, LogLevel::info, pipe.ends[1], false);
  log.warning("c", "m", {{"n", 3}});
  const std::string line = pipe.text();
  const std::string shape = "0000-00-00T00:00:00.000Z warning c: m n=3\n";
  REQUIRE(line.size() == shape.size());
  for (std::size_t i = 0; i < 24; ++i) {
    const bool is_digit = line[i] >= '0' && line[i] <= '9';
    CHECK((shape[i] == '0' ? is_digit : line[i] == shape[i]));
  }
  CHECK(line.substr(24) == shape.substr(24));
}

TEST_CASE("as JSON every line is one object, whatever is in it") {
  ManualClock clock;
  Pipe pipe;
  Log log(clock, LogLevel::info, pipe.ends[1], false, LogFormat::json);
  const std::string evil = "a\"}\n{\"level\":\"error\" \xff\\";
  log.info("control", "attached", {{"session", 7}, {"level", evil}});
  Log journal(clock, LogLevel::info, pipe.ends[1], true, LogFormat::json);
  journal.error("c", "m");
  const std::string text = pipe.text();
  const std::size_t end = text.find('\n');
  REQUIRE(end != std::string::npos);
  const auto first = nlohmann::json::parse(text.substr(0, end), nullptr, false);
  REQUIRE_FALSE(first.is_discarded());
  CHECK(first["level"] == "info");
  CHECK(first["component"] == "control");
  CHECK(first["message"] == "attached");
  CHECK(first["fields"]["session"] == "7");
  CHECK(first["fields"]["level"] == "a\"}\n{\"level\":\"error\" \xef\xbf\xbd\\");
  CHECK(first["time"].get<std::string>().size() == 24);
  CHECK(text.substr(end + 1) == "<3>{\"level\":\"error\",\"component\":\"c\",\"message\":\"m\"}\n");
}

TEST_CASE("one message that floods is cut, counted, and leaves room for others") {
  ManualClock clock;
  Pipe pipe;
  Log log(clock, LogLevel::info, pipe.ends[1], true);
  for (int i = 0; i < 1000; ++i) log.warning("c", "m");
  const std::string flood = pipe.text();
  CHECK(std::count(flood.begin(), flood.end(), '\n') == static_cast<long>(Log::kSiteBurst));
  CHECK(log.suppressed() == 1000 - Log::kSiteBurst);
  log.warning("c", "another");
  CHECK(pipe.text() == "<4>warning c: another\n");
  clock.advance_ns(kNsPerSecond);
  log.warning("c", "m");
  CHECK(pipe.text() == "<4>warning c: m (before it, 900 such lines were left out)\n");
  log.warning("c", "m");
  CHECK(pipe.text() == "<4>warning c: m\n");
}

TEST_CASE("a flood of all kinds of lines is cut, counted, and over when time has passed") {
  ManualClock clock;
  Pipe pipe;
  Log log(clock, LogLevel::info, pipe.ends[1], true);
  for (int i = 0; i < 1000; ++i) log.warning("c", "m" + std::to_string(i));
  const std::string flood = pipe.text();
  CHECK(std::count(flood.begin(), flood.end(), '\n') == static_cast<long>(Log::kBurst));
  CHECK(log.suppressed() == 1000 - Log::kBurst);
  clock.advance_ns(kNsPerSecond);
  log.warning("c", "again");
  CHECK(pipe.text() == "<4>warning c: again (before it, 600 lines were left out)\n");
}

TEST_CASE("standard error is the journal when it is what systemd says it connected") {
  struct stat info {};
  REQUIRE(::fstat(STDERR_FILENO, &info) == 0);
  const std::string ours = std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
  ::setenv("JOURNAL_STREAM", ours.c_str(), 1);
  CHECK(Log::stderr_is_journal());
  // Standard error was redirected since.
  ::setenv("JOURNAL_STREAM", (ours + "1").c_str(), 1);
  CHECK_FALSE(Log::stderr_is_journal());
  ::unsetenv("JOURNAL_STREAM");
  CHECK_FALSE(Log::stderr_is_journal());
}

TEST_CASE("a repeated error is one entry with a count and times") {
  ManualClock clock(100);
  ErrorLog errors(clock);
  CHECK(errors.record("control.attach", simm::Status::incompatible, "version 9"));
  clock.advance_ns(50);
  CHECK_FALSE(errors.record("control.attach", simm::Status::incompatible, "version 9"));
  CHECK(errors.record("control.attach", simm::Status::incompatible, "version 8"));
  CHECK(errors.record("control.attach", simm::Status::timeout, "version 9"));
  const auto all = errors.entries();
  REQUIRE(all.size() == 3);
  CHECK(all[0].count == 2);
  CHECK(all[0].first_ns == 100);
  CHECK(all[0].last_ns == 150);
  CHECK(all[0].site == "control.attach");
  CHECK(all[0].text == "version 9");
}

TEST_CASE("text of a client is sanitised and cut, and kinds beyond the table only count") {
  ManualClock clock;
  ErrorLog errors(clock);
  errors.record("site", simm::Status::poisoned, "a\x1b[31m\n\"" + std::string(5000, 'x'));
  const auto first = errors.entries();
  REQUIRE(first.size() == 1);
  CHECK(first[0].text.rfind("a\\x1b[31m\\x0a\\x22xxx", 0) == 0);
  CHECK(first[0].text.size() < ErrorLog::kTextBytesMax);
  for (int i = 0; i < 2000; ++i) {
    errors.record("site", simm::Status::poisoned, "kind " + std::to_string(i));
  }
  CHECK(errors.entries().size() == kErrorsOfSiteMax);
  CHECK(errors.dropped() == 2001 - kErrorsOfSiteMax);
}

TEST_CASE("what one place says 2,000 times otherwise hides no error of another place") {
  ManualClock clock;
  ErrorLog errors(clock);
  for (int i = 0; i < 2000; ++i) {
    errors.record("attach", simm::Status::poisoned, "packet of " + std::to_string(i) + " bytes");
  }
  CHECK(errors.record("pool", simm::Status::corrupt, "a record is damaged"));
  const auto all = errors.entries();
  CHECK(
      std::any_of(all.begin(), all.end(), [](const auto& entry) { return entry.site == "pool"; }));
}

TEST_CASE("strangers of 1,500 addresses who say the same are one error, and hide none") {
  ManualClock clock;
  ErrorLog errors(clock);
  for (int i = 0; i < 1500; ++i) {
    errors.record("cluster.hello", simm::Status::corrupt, "garbage", "10.0.0." + std::to_string(i));
  }
  clock.advance_ns(1);
  CHECK(errors.record("cluster.hello", simm::Status::permission_denied, "no secret", "10.9.9.9"));
  const auto all = errors.entries();
  REQUIRE(all.size() == 2);
  CHECK(all[0].count == 1500);
  CHECK(all[0].first_from == "10.0.0.0");
  CHECK(all[1].text == "no secret");
  CHECK(all[1].first_from == "10.9.9.9");
}

TEST_CASE("several threads record the same and different errors at once") {
  ManualClock clock;
  ErrorLog errors(clock);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&errors] {
      for (int i = 0; i < 2000; ++i) {
        errors.record("race", simm::Status::io_error, "kind " + std::to_string(i % 8));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t total = 0;
  for (const ErrorEntry& entry : errors.entries()) total += entry.count;
  CHECK(errors.entries().size() == 8);
  CHECK(total == 8000);
}

TEST_CASE("sanitised text is cut") {
  CHECK(sanitize(std::string(300, 'a'), 20).size() <= 23);
}

}  // namespace log_test
