#include "daemon/base/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
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

TEST_CASE("a flood of lines is cut, counted, and over when time has passed") {
  ManualClock clock;
  Pipe pipe;
  Log log(clock, LogLevel::info, pipe.ends[1], false);
  for (int i = 0; i < 1000; ++i) log.warning("c", "m");
  const std::string flood = pipe.text();
  CHECK(std::count(flood.begin(), flood.end(), '\n') == static_cast<long>(Log::kBurst));
  CHECK(log.suppressed() == 1000 - Log::kBurst);
  clock.advance_ns(kNsPerSecond);
  log.warning("c", "again");
  CHECK(pipe.text() == "warning c: again (before it, 600 lines were left out)\n");
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
  CHECK(errors.entries().size() <= kDistinctErrorsMax);
  CHECK(errors.dropped() >= 2001 - kDistinctErrorsMax);
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
