#include "daemon/tools/simm-bench/subprocess.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <thread>

#include "daemon/tools/simm-bench/process_cpu.h"

namespace simm::bench::subprocess_test {

using std::chrono::seconds;

CapturedProcess shell(const std::string& script, bool with_errors = true) {
  Expected<CapturedProcess> child =
      CapturedProcess::start({"/bin/sh", "-c", script}, {}, with_errors);
  REQUIRE(child);
  return std::move(*child);
}

TEST_CASE("what a program says is kept, errors where they were asked for, and its end") {
  const auto both = shell("echo one; echo two >&2; exit 3").finish(seconds(30));
  REQUIRE(both);
  CHECK(both->text == "one\ntwo\n");
  CHECK_FALSE(both->ok());
  const auto one = shell("echo one; exec 2>/dev/null; echo two >&2", false).finish(seconds(30));
  REQUIRE(one);
  CHECK(one->text == "one\n");
  CHECK(one->ok());
}

TEST_CASE("it is seen whether a program has ended, before it is asked for its words") {
  CapturedProcess sleeper = shell("sleep 60");
  CHECK(sleeper.is_running());
  CapturedProcess quick = shell("echo over");
  while (quick.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto result = quick.finish(seconds(30));
  REQUIRE(result);
  CHECK(result->text == "over\n");
}

TEST_CASE("one that does not end in time is an error with its words, and is killed") {
  std::optional<CapturedProcess> child(shell("echo $$; exec sleep 60"));
  const auto result = child->finish(seconds(3));
  REQUIRE_FALSE(result);
  CHECK(result.status() == Status::timeout);
  const std::string& why = result.error().context;
  const pid_t pid = std::stoi(why.substr(why.find('\'') + 1));
  REQUIRE(kill(pid, 0) == 0);
  child.reset();
  CHECK((kill(pid, 0) == -1 && errno == ESRCH));
}

TEST_CASE("the CPU time of a process grows with its work, and one that is gone has none") {
  const Expected<std::uint64_t> before_ns = cpu_time_ns(getpid());
  REQUIRE(before_ns);
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  Expected<std::uint64_t> after_ns = before_ns;
  while (*after_ns < *before_ns + 1'000'000 && std::chrono::steady_clock::now() < end) {
    after_ns = cpu_time_ns(getpid());
    REQUIRE(after_ns);
  }
  CHECK(*after_ns >= *before_ns + 1'000'000);
  const Expected<pid_t> gone = spawn({"/bin/true"});
  REQUIRE(gone);
  REQUIRE(waitpid(*gone, nullptr, 0) == *gone);
  const Expected<std::uint64_t> none = cpu_time_ns(*gone);
  REQUIRE_FALSE(none);
  CHECK(none.error().context.find("process " + std::to_string(*gone)) != std::string::npos);
}

}  // namespace simm::bench::subprocess_test
