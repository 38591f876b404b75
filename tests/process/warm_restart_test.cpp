// A daemon that ends, in whatever way, and the next one that finds its objects: in named memory,
// and in memory that a service manager keeps.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <string>

#include "tests/process/page_checker.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temporary_directory.h"

namespace warm_restart_test {

using simm::Status;
using Pages = process_tests::PageChecker;
using simm::test_support::DaemonProcess;
using Clock = std::chrono::steady_clock;

constexpr int kPages = 40;

struct PoolPath {
  [[nodiscard]] std::string keys(const std::string& more = "",
                                 const std::string& bytes = "64MiB") const {
    return R"("node": {"hugepages": "off", "pool_bytes": ")" + bytes + R"(", "pool_path": ")" +
           directory / "pool\"" + more + "}";
  }
  simm::test_support::TemporaryDirectory directory{"/dev/shm"};
};

void check_everything_is_there(DaemonProcess& daemon) {
  const auto begun = Clock::now();
  REQUIRE(daemon.start());
  Pages pages(daemon);
  CHECK(pages.get(0) == Status::ok);
  const auto first_hit =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  MESSAGE("first hit after " << first_hit.count() << " ms, process start included");
  CHECK(pages.count(kPages, Status::ok) == kPages);
}

bool logs(const DaemonProcess& daemon, const std::string& part) {
  INFO(daemon.log());
  CHECK(daemon.log().find(part) != std::string::npos);
  return true;
}

TEST_CASE("kill -9 and a stop both leave the objects of a named pool to the next daemon") {
  const PoolPath pool;
  DaemonProcess daemon(pool.keys());
  REQUIRE(daemon.start());
  {
    Pages pages(daemon);
    REQUIRE(pages.put_all(kPages, Status::ok) == kPages);
    CHECK(pages.remove(7) == Status::ok);
    CHECK(pages.put(7) == Status::ok);
  }
  daemon.signal(SIGKILL);
  CHECK(daemon.wait() == 1000 + SIGKILL);
  check_everything_is_there(daemon);
  logs(daemon, "recovered objects=40");
  logs(daemon, "last_ended=killed");
  CHECK(daemon.report("status")["pool"]["contents"] == "kept");
  daemon.signal(SIGTERM);
  CHECK(daemon.wait() == 0);
  check_everything_is_there(daemon);
  logs(daemon, "last_ended=stopped");
  // What is removed is gone for the next one as well.
  Pages pages(daemon);
  CHECK(pages.remove(3) == Status::ok);
  daemon.signal(SIGKILL);
  CHECK(daemon.wait() == 1000 + SIGKILL);
  REQUIRE(daemon.start());
  Pages after(daemon);
  CHECK(after.get(3) == Status::not_found);
  CHECK(after.count(kPages, Status::ok) == kPages - 1);
}

TEST_CASE("a pool of another size begins anew and says why; require refuses and touches nothing") {
  const PoolPath pool;
  {
    DaemonProcess daemon(pool.keys());
    REQUIRE(daemon.start());
    REQUIRE(Pages(daemon).put_all(kPages, Status::ok) == kPages);
  }
  {
    DaemonProcess strict(pool.keys(R"(, "pool_restart": "require")", "48MiB"));
    CHECK_FALSE(strict.start());
    CHECK(strict.wait() == 1);
    logs(strict, "node.pool_restart = require");
  }
  {
    DaemonProcess same(pool.keys(R"(, "pool_restart": "require")"));
    REQUIRE(same.start());
    CHECK(Pages(same).count(kPages, Status::ok) == kPages);
  }
  DaemonProcess other(pool.keys("", "48MiB"));
  REQUIRE(other.start());
  logs(other, "has 67108864 bytes, expected 50331648");
  CHECK(Pages(other).count(kPages, Status::ok) == 0);
  CHECK(other.report("status")["pool"]["contents"] == "fresh");
}

TEST_CASE("objects of one tenant never become another's when the configuration changes") {
  const PoolPath pool;
  const auto sockets = [](const std::string& tenant) {
    return R"(, "sockets": [{"path": "$DIR/simm.sock", "tenant": ")" + tenant + R"("}])";
  };
  const auto hits_of = [&](const std::string& tenant) {
    DaemonProcess daemon(pool.keys() + sockets(tenant));
    REQUIRE(daemon.start());
    logs(daemon, "contents=kept");
    return Pages(daemon).count(kPages, Status::ok);
  };
  {
    DaemonProcess daemon(pool.keys() + sockets("blue"));
    REQUIRE(daemon.start());
    REQUIRE(Pages(daemon).put_all(kPages, Status::ok) == kPages);
  }
  CHECK(hits_of("green") == 0);
  CHECK(hits_of("blue") == kPages);
}

TEST_CASE("a second daemon on the same memory is refused, and the first one lives on") {
  const PoolPath pool;
  DaemonProcess first(pool.keys());
  REQUIRE(first.start());
  REQUIRE(Pages(first).put_all(kPages, Status::ok) == kPages);
  DaemonProcess second(pool.keys());
  CHECK_FALSE(second.start());
  CHECK(second.wait() == 1);
  logs(second, "is in use by another daemon (pid " + std::to_string(first.pid()) + ")");
  CHECK(Pages(first).count(kPages, Status::ok) == kPages);
}

TEST_CASE("a service manager that keeps the pool's files brings the objects back") {
  DaemonProcess daemon(R"("node": {"pool_bytes": "64MiB", "hugepages": "off"})");
  daemon.keep_files();
  REQUIRE(daemon.start());
  CHECK(daemon.kept_files() == 2);
  REQUIRE(Pages(daemon).put_all(kPages, Status::ok) == kPages);
  daemon.signal(SIGKILL);
  CHECK(daemon.wait() == 1000 + SIGKILL);
  check_everything_is_there(daemon);
  CHECK(daemon.report("status")["pool"]["memory"] == "handed");
  daemon.signal(SIGTERM);
  CHECK(daemon.wait() == 0);
  check_everything_is_there(daemon);
  CHECK(daemon.kept_files() == 2);
}

TEST_CASE("without a name and without anybody who keeps it a pool goes with its daemon") {
  DaemonProcess daemon(R"("node": {"pool_bytes": "64MiB", "hugepages": "off"})");
  REQUIRE(daemon.start());
  CHECK(daemon.kept_files() == 0);
  REQUIRE(Pages(daemon).put_all(kPages, Status::ok) == kPages);
  daemon.signal(SIGKILL);
  CHECK(daemon.wait() == 1000 + SIGKILL);
  REQUIRE(daemon.start());
  CHECK(Pages(daemon).count(kPages, Status::ok) == 0);
  CHECK(daemon.report("status")["pool"]["memory"] == "private");
}

}  // namespace warm_restart_test
