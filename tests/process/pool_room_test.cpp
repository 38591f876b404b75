// Named pools on file systems that are too small for them, that somebody else fills, or that have
// too few huge pages: refused with a remedy and without a trace, or served on, never a fault.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "ipc/fd.h"
#include "simm/client.h"
#include "tests/process/page_checker.h"
#include "tests/support/daemon_process.h"
#include "tests/support/huge_pool.h"
#include "tests/support/mounted_directory.h"

namespace pool_room_test {

using process_tests::PageChecker;
using simm::Status;
using simm::test_support::DaemonProcess;
using simm::test_support::eventually;
using simm::test_support::HugePool;
using simm::test_support::MountedDirectory;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr int kPages = 40;

std::string pool_keys(const std::string& path, const std::string& bytes = "64MiB",
                      const std::string& more = "") {
  return R"("node": {"hugepages": "off", "pool_bytes": ")" + bytes + R"(", "pool_path": ")" + path +
         "\"" + more + "}";
}

// That a daemon so configured ends at its start, with these words.
void check_refused(const std::string& keys, const std::vector<std::string>& words) {
  DaemonProcess daemon(keys);
  CHECK_FALSE(daemon.start());
  CHECK(daemon.wait() == 1);
  const std::string log = daemon.log();
  INFO(log);
  for (const std::string& word : words) CHECK_MESSAGE(log.find(word) != std::string::npos, word);
}

// But for the empty file that names the last holder.
std::set<std::string> files_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name.rfind("holder-", 0) != 0) names.insert(name);
  }
  return names;
}
const std::set<std::string> kOnlyTheLock = {"lock"};

// Somebody else's file, which takes all there is.
void fill(const MountedDirectory& mounted) {
  const simm::ipc::UniqueFd file(
      ::open((mounted / "filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::vector<char> bytes(kMiB, 'f');
  for (std::size_t length = bytes.size(); length > 0; length /= 2) {
    while (::write(file.get(), bytes.data(), length) > 0) {
    }
  }
  REQUIRE(mounted.free_bytes() == 0);
}

// Objects with keys of more than 112 bytes, which take a KiB of the tables each: how many were
// stored. The others had no room.
int put_with_long_keys(const DaemonProcess& daemon, int objects) {
  simm::ClientOptions options;
  options.socket_path = daemon.socket();
  auto client = simm::Client::connect(options);
  REQUIRE(client.has_value());
  auto region = client->allocate_region(4096);
  REQUIRE(region.has_value());
  int done = 0;
  for (int i = 0; i < objects; ++i) {
    const std::string key = std::string(200, 'k') + std::to_string(i);
    const Status status = client->put(key, simm::View(*region, 0, 64)).status;
    CHECK((status == Status::ok || status == Status::no_space));
    done += status == Status::ok ? 1 : 0;
  }
  return done;
}

TEST_CASE("a tmpfs that is too small for the pool or its tables: refused, nothing is left there") {
  const MountedDirectory small("tmpfs", "size=24m");
  if (!small.ready()) return;
  check_refused(pool_keys(small / "pool"),
                {"node.pool_bytes = 64.0 MiB", "node.pool_path: " + small / "pool",
                 "has room for 24 of 64 MiB", "mount -o remount,size="});
  CHECK(files_in(small / "pool") == kOnlyTheLock);
  CHECK(small.free_bytes() == 24 * kMiB);
  DaemonProcess fitting(pool_keys(small / "pool", "16MiB"));
  REQUIRE(fitting.start());
  CHECK(PageChecker(fitting).put_all(kPages, Status::ok) == kPages);

  const MountedDirectory exact("tmpfs", "size=16m");
  REQUIRE(exact.ready());
  check_refused(pool_keys(exact / "pool", "16MiB"),
                {"node.pool_path: " + exact / "pool", "but not for the metadata tables"});
  CHECK(files_in(exact / "pool") == kOnlyTheLock);
  CHECK(exact.free_bytes() == 16 * kMiB);
}

TEST_CASE("a pool without room for its tables is refused, and a size that fits is named") {
  const std::string all = R"("node": {"hugepages": "off", "pool_bytes": "100%"})";
  check_refused(all, {"node.pool_bytes = ", "page tables", "tables of objects"});
  DaemonProcess refused(all);
  CHECK_FALSE(refused.start());
  CHECK(refused.wait() == 1);
  const std::string log = refused.log();
  const std::string before = "; write \"";
  const std::size_t at = log.find(before);
  REQUIRE_MESSAGE(at != std::string::npos, log);
  const std::size_t begin = at + before.size();
  const std::string size = log.substr(begin, log.find('"', begin) - begin);
  CAPTURE(size);
  DaemonProcess fitting(R"("node": {"hugepages": "off", "pool_bytes": ")" + size + R"("})");
  CHECK(fitting.start());
}

TEST_CASE("what is kept stays when a pool can not be had for another reason") {
  const MountedDirectory mounted("tmpfs", "size=24m");
  if (!mounted.ready()) return;
  {
    DaemonProcess daemon(pool_keys(mounted / "pool", "16MiB"));
    REQUIRE(daemon.start());
    REQUIRE(PageChecker(daemon).put_all(kPages, Status::ok) == kPages);
  }
  check_refused(pool_keys(mounted / "pool", "64MiB", R"(, "pool_restart": "require")"),
                {"node.pool_restart = require: nothing was touched"});
  DaemonProcess daemon(pool_keys(mounted / "pool", "16MiB"));
  REQUIRE(daemon.start());
  CHECK(PageChecker(daemon).count(kPages, Status::ok) == kPages);
}

TEST_CASE("a tmpfs that somebody else fills takes nothing from a daemon that has its pool there") {
  const MountedDirectory mounted("tmpfs", "size=24m");
  if (!mounted.ready()) return;
  DaemonProcess daemon(pool_keys(mounted / "pool", "16MiB", R"(, "prefault": true)"));
  REQUIRE(daemon.start());
  CHECK(mounted.free_bytes() <= 8 * kMiB);  // all of the pool is its own from the start
  fill(mounted);
  PageChecker pages(daemon);
  REQUIRE(pages.put_all(kPages, Status::ok) == kPages);
  CHECK(pages.count(kPages, Status::ok) == kPages);
  // Every byte of the pool is written to.
  constexpr int kMany = static_cast<int>(2 * 16 * kMiB / PageChecker::kPageBytes);
  CHECK(pages.put_all(kMany, Status::ok) == kMany);
  CHECK(eventually([&] { return daemon.counter("store.0.evicted") > 0; }));
  // The tables would grow and can not.
  constexpr int kObjects = 3000;
  CHECK(put_with_long_keys(daemon, kObjects) < kObjects);
  CHECK(daemon.alive());
  // The next daemon needs no room either.
  CHECK(pages.put_all(kPages, Status::ok) == kPages);
  daemon.signal(SIGKILL);
  CHECK(daemon.wait() == 1000 + SIGKILL);
  REQUIRE(daemon.start());
  CHECK(daemon.report("status")["pool"]["contents"] == "kept");
  CHECK(PageChecker(daemon).count(kPages, Status::ok) == kPages);
  CHECK(put_with_long_keys(daemon, kObjects) < kObjects);
  // With room again the tables grow.
  std::filesystem::remove(mounted / "filler");
  CHECK(put_with_long_keys(daemon, kObjects) == kObjects);
}

TEST_CASE("a run directory on a tmpfs that is full: refused by the name of what has no room") {
  const MountedDirectory mounted("tmpfs", "size=1m");
  if (!mounted.ready()) return;
  fill(mounted);
  check_refused(R"("run_directory": ")" + mounted / "" + "\"",
                {"counters_file: can not size or map " + mounted / "", "No space left on device"});
  CHECK(files_in(mounted / "") == std::set<std::string>{"filler"});
}

TEST_CASE("a hugetlbfs with too few pages: refused, all are free again, and the first pool lives") {
  constexpr std::uint64_t kPoolPages = 8;  // 16 MiB
  HugePool pool(kPoolPages + 4);
  if (!pool.ready()) return;
  const MountedDirectory mounted("hugetlbfs", "pagesize=2M");
  if (!mounted.ready()) return;
  const std::uint64_t free_pages = pool.free_pages();
  const std::string too_much = std::to_string(2 * free_pages + 32) + "MiB";
  check_refused(pool_keys(mounted / "large", too_much),
                {"node.pool_path: " + mounted / "large", "has room for ", "vm.nr_hugepages"});
  CHECK(files_in(mounted / "large") == kOnlyTheLock);
  CHECK(pool.free_pages() == free_pages);

  DaemonProcess daemon(pool_keys(mounted / "pool", "16MiB"));
  REQUIRE(daemon.start());
  CHECK(pool.free_pages() <= free_pages - kPoolPages);
  REQUIRE(pool.take_free_pages());
  check_refused(pool_keys(mounted / "second", "16MiB"), {"has room for 0 of 16 MiB"});
  constexpr int kMany = static_cast<int>(2 * 16 * kMiB / PageChecker::kPageBytes);
  CHECK(PageChecker(daemon).put_all(kMany, Status::ok) == kMany);
  REQUIRE(daemon.alive());
  daemon.signal(SIGKILL);
  CHECK(daemon.wait() == 1000 + SIGKILL);
  REQUIRE(daemon.start());
  CHECK(daemon.report("status")["pool"]["contents"] == "kept");
  CHECK(PageChecker(daemon).put_all(kPages, Status::ok) == kPages);
}

}  // namespace pool_room_test
