// A daemon that ends, in whatever way, and the next one that finds its objects: in named memory,
// and in memory that a service manager keeps.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "simm/client.h"
#include "tests/support/daemon_process.h"

namespace warm_restart_test {

using simm::Status;
using simm::test_support::DaemonProcess;
using Clock = std::chrono::steady_clock;

constexpr int kPages = 40;
constexpr std::size_t kPageBytes = 50'000;

struct PoolPath {
  PoolPath() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~PoolPath() { std::filesystem::remove_all(path); }
  PoolPath(const PoolPath&) = delete;
  PoolPath& operator=(const PoolPath&) = delete;
  [[nodiscard]] std::string keys(const std::string& more = "",
                                 const std::string& bytes = "64MiB") const {
    return R"("node": {"hugepages": "off", "pool_bytes": ")" + bytes + R"(", "pool_path": ")" +
           path + R"(/pool")" + more + "}";
  }
  std::string path = "/dev/shm/simm_warm_XXXXXX";
};

// A client whose pages say which one they are.
class Pages {
public:
  explicit Pages(const DaemonProcess& daemon) : client_(connect(daemon)), region_(allocate()) {}

  Status put(int page) {
    fill(0, page);
    return client_.put(key(page), simm::View(region_, 0, kPageBytes)).status;
  }
  Status get(int page) {
    const auto got = client_.get(key(page), simm::View(region_, kPageBytes, kPageBytes));
    if (got.status != Status::ok) return got.status;
    fill(0, page);
    CHECK(std::memcmp(region_.data(), region_.data() + kPageBytes, kPageBytes) == 0);
    return Status::ok;
  }
  int put_all() {
    int done = 0;
    for (int page = 0; page < kPages; ++page) done += put(page) == Status::ok ? 1 : 0;
    return done;
  }
  int hits() {
    int counted = 0;
    for (int page = 0; page < kPages; ++page) counted += get(page) == Status::ok ? 1 : 0;
    return counted;
  }
  Status remove(int page) { return client_.remove(key(page)); }

private:
  static simm::Client connect(const DaemonProcess& daemon) {
    simm::ClientOptions options;
    options.socket_path = daemon.socket();
    auto client = simm::Client::connect(options);
    REQUIRE(client.has_value());
    return std::move(*client);
  }
  simm::Region allocate() {
    auto region = client_.allocate_region(2 * kPageBytes);
    REQUIRE(region.has_value());
    return std::move(*region);
  }
  static std::string key(int page) { return "warm/" + std::to_string(page); }
  void fill(std::size_t at, int page) {
    for (std::size_t i = 0; i < kPageBytes; ++i) {
      region_.data()[at + i] =
          static_cast<std::byte>((static_cast<std::size_t>(page) * 37 + i * 11) >> 3);
    }
  }

  simm::Client client_;
  simm::Region region_;
};

void check_everything_is_there(DaemonProcess& daemon) {
  const auto begun = Clock::now();
  REQUIRE(daemon.start());
  Pages pages(daemon);
  CHECK(pages.get(0) == Status::ok);
  const auto first_hit =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  MESSAGE("first hit after " << first_hit.count() << " ms, process start included");
  CHECK(pages.hits() == kPages);
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
    REQUIRE(pages.put_all() == kPages);
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
  CHECK(after.hits() == kPages - 1);
}

TEST_CASE("a pool of another size begins anew and says why; require refuses and touches nothing") {
  const PoolPath pool;
  {
    DaemonProcess daemon(pool.keys());
    REQUIRE(daemon.start());
    REQUIRE(Pages(daemon).put_all() == kPages);
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
    CHECK(Pages(same).hits() == kPages);
  }
  DaemonProcess other(pool.keys("", "48MiB"));
  REQUIRE(other.start());
  logs(other, "has 67108864 bytes, expected 50331648");
  CHECK(Pages(other).hits() == 0);
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
    return Pages(daemon).hits();
  };
  {
    DaemonProcess daemon(pool.keys() + sockets("blue"));
    REQUIRE(daemon.start());
    REQUIRE(Pages(daemon).put_all() == kPages);
  }
  CHECK(hits_of("green") == 0);
  CHECK(hits_of("blue") == kPages);
}

TEST_CASE("a second daemon on the same memory is refused, and the first one lives on") {
  const PoolPath pool;
  DaemonProcess first(pool.keys());
  REQUIRE(first.start());
  REQUIRE(Pages(first).put_all() == kPages);
  DaemonProcess second(pool.keys());
  CHECK_FALSE(second.start());
  CHECK(second.wait() == 1);
  logs(second, "is in use by another daemon (pid " + std::to_string(first.pid()) + ")");
  CHECK(Pages(first).hits() == kPages);
}

TEST_CASE("a service manager that keeps the pool's files brings the objects back") {
  DaemonProcess daemon(R"("node": {"pool_bytes": "64MiB", "hugepages": "off"})");
  daemon.keep_files();
  REQUIRE(daemon.start());
  CHECK(daemon.kept_files() == 2);
  REQUIRE(Pages(daemon).put_all() == kPages);
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
  REQUIRE(Pages(daemon).put_all() == kPages);
  daemon.signal(SIGKILL);
  CHECK(daemon.wait() == 1000 + SIGKILL);
  REQUIRE(daemon.start());
  CHECK(Pages(daemon).hits() == 0);
  CHECK(daemon.report("status")["pool"]["memory"] == "private");
}

}  // namespace warm_restart_test
