// A daemon that was started as root and becomes an unprivileged user: what it still can do, and
// what it has kept.
#include <doctest/doctest.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "simm/client.h"
#include "tests/support/daemon_process.h"

namespace user_test {

using simm::Client;
using simm::Region;
using simm::Status;
using simm::View;
using simm::test_support::DaemonProcess;

constexpr std::size_t kBytes = 1 << 20;

// A field of /proc/<pid>/task/<tid>/status of every thread, values separated by one space.
std::vector<std::string> field_of_threads(pid_t pid, const std::string& field) {
  std::vector<std::string> values;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(field + ":", 0) != 0) continue;
      std::istringstream words(line.substr(field.size() + 1));
      std::string value;
      for (std::string word; words >> word;) value += (value.empty() ? "" : " ") + word;
      values.push_back(value);
    }
  }
  return values;
}

void check_round_trip(Client& client, const Region& region, const char* key) {
  std::memset(region.data(), 0x5a, kBytes / 2);
  std::memset(region.data() + kBytes / 2, 0, kBytes / 2);
  CHECK(client.put(key, View(region, 0, kBytes / 2)).status == Status::ok);
  CHECK(client.get(key, View(region, kBytes / 2, kBytes / 2)).status == Status::ok);
  CHECK(std::memcmp(region.data(), region.data() + kBytes / 2, kBytes / 2) == 0);
}

TEST_CASE("a daemon that becomes nobody keeps no privilege and serves as before") {
  const passwd* const nobody = ::getpwnam("nobody");
  if (::geteuid() != 0 || nobody == nullptr) {
    MESSAGE("skipped: becoming another user needs root and a user 'nobody'");
    return;
  }
  DaemonProcess daemon(R"("user": "nobody")");
  const bool started = daemon.start();
  REQUIRE_MESSAGE(started, daemon.log());

  const std::string uid = std::to_string(nobody->pw_uid);
  const std::string gid = std::to_string(nobody->pw_gid);
  const auto all_are = [&](const char* field, const std::string& value) {
    const auto values = field_of_threads(daemon.pid(), field);
    CHECK(values.size() >= 3);  // control, data, registrar
    for (const std::string& seen : values) CHECK_MESSAGE(seen == value, field);
  };
  all_are("Uid", uid + " " + uid + " " + uid + " " + uid);
  all_are("Gid", gid + " " + gid + " " + gid + " " + gid);
  for (const std::string& groups : field_of_threads(daemon.pid(), "Groups")) {
    CHECK((groups.empty() || groups == gid));  // none of root's
  }
  for (const char* field : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
    all_are(field, "0000000000000000");
  }

  simm::ClientOptions options;
  options.socket_path = daemon.socket();
  auto client = Client::connect(options);
  REQUIRE(client.has_value());
  auto shared = client->allocate_region(kBytes);
  REQUIRE(shared.has_value());
  CHECK(shared->kind() == simm::RegionKind::shared);
  check_round_trip(*client, *shared, "shared");
  // The helper was forked before: it still opens what the client has mapped.
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  {
    auto adopted = client->register_region(memory, kBytes);
    REQUIRE(adopted.has_value());
    INFO(adopted->kind_reason());
    CHECK(adopted->kind() == simm::RegionKind::adopted);
    check_round_trip(*client, *adopted, "adopted");
  }
  ::munmap(memory, kBytes);

  daemon.signal(SIGTERM);
  CHECK(daemon.wait() == 0);
  struct stat info {};
  CHECK(::stat(daemon.socket().c_str(), &info) != 0);  // it may remove what it made
}

}  // namespace user_test
