// A cluster of real daemons on loopback: a manager, storage daemons and nodes, each a process with
// a directory of its own, and one secret. Processes may be killed and started again one by one.
// Thread: the test's.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "ipc/fd.h"
#include "simm/client.h"
#include "tests/support/daemon_process.h"
#include "tests/support/number_from.h"

namespace cluster_processes {

using simm::test_support::DaemonProcess;
using simm::test_support::eventually;
using simm::test_support::number_from;

// A port that is free now. The manager needs one that stays the same when it is restarted.
inline std::string free_address() {
  const simm::ipc::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  socklen_t bytes = sizeof address;
  REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

class SecretFile {
public:
  SecretFile() {
    const int file = ::mkstemp(path_.data());
    REQUIRE(file >= 0);
    const std::string text = "a secret of the process tests, nobody else's";
    REQUIRE(::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(file);
  }
  ~SecretFile() { ::unlink(path_.c_str()); }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

private:
  std::string path_ = "/tmp/simm_secret_XXXXXX";
};

struct ClusterProcesses {
  // `grace_ms`: how long a dead daemon keeps its slots.
  explicit ClusterProcesses(int grace_ms = 30'000)
      : address(free_address()),
        manager("\"cluster\": {\"secret_file\": \"" + secret.path() +
                    "\", \"node_name\": \"m\"}, \"manager\": {\"listen\": \"" + address +
                    "\", \"member_timeout_ms\": " + std::to_string(std::min(grace_ms, 1000)) +
                    ", \"rejoin_grace_ms\": " + std::to_string(grace_ms) + "}",
                "manager") {}

  // `keys`: more members of the configuration.
  [[nodiscard]] std::unique_ptr<DaemonProcess> storage(const std::string& name,
                                                       const std::string& keys = "") const {
    return std::make_unique<DaemonProcess>(member_keys(name) + keys, "storage");
  }
  [[nodiscard]] std::unique_ptr<DaemonProcess> node(const std::string& name,
                                                    const std::string& pool = "0",
                                                    const std::string& keys = "") const {
    return std::make_unique<DaemonProcess>(member_keys(name) + keys +
                                               ", \"node\": {\"pool_bytes\": \"" + pool +
                                               "\", \"flight_linger_ms\": 60000}",
                                           "node");
  }
  [[nodiscard]] std::string member_keys(const std::string& name) const {
    return "\"cluster\": {\"manager\": \"" + address + "\", \"secret_file\": \"" + secret.path() +
           "\", \"node_name\": \"" + name + "\"}";
  }

  SecretFile secret;
  std::string address;
  DaemonProcess manager;
};

// Whether every data agent of `daemon` uses the map of the manager.
inline bool uses_the_map_of(const DaemonProcess& daemon, const DaemonProcess& manager) {
  const auto newest = manager.report("status")["manager"]["epoch"];
  const auto status = daemon.report("status")["cluster"];
  return newest != 0 && status["epoch"] == newest && status["agents_epoch"] == newest;
}

// Whether `node` has a map of `members` members and a working connection to each.
inline bool sees_members(const DaemonProcess& node, std::size_t members) {
  const auto report = node.report("peers");
  if (!report.contains("peers") || report["peers"].size() != members) return false;
  for (const auto& peer : report["peers"]) {
    if (peer["open"] != peer["connections"]) return false;
  }
  return true;
}

// A client that writes pages whose every byte says which page it is, and looks at every byte that
// it gets.
class Checker {
public:
  static constexpr std::size_t kPageBytes = 32 * 1024;

  // Keys are `before` and a number and `after`.
  explicit Checker(const DaemonProcess& node, std::string before = "page/", std::string after = "")
      : client_(connect(node)),
        region_(allocate()),
        before_(std::move(before)),
        after_(std::move(after)) {}

  simm::Status put(int page) {
    fill(0, page);
    return client_.put(key(page), simm::View(region_, 0, kPageBytes)).status;
  }
  // not_found is a miss; a hit with a wrong byte fails the test.
  simm::Status get(int page) {
    std::memset(region_.data() + kPageBytes, 0xee, kPageBytes);
    const auto got = client_.get(key(page), simm::View(region_, kPageBytes, kPageBytes));
    if (got.status != simm::Status::ok) return got.status;
    fill(0, page);
    CHECK(got.bytes == kPageBytes);
    CHECK(std::memcmp(region_.data(), region_.data() + kPageBytes, kPageBytes) == 0);
    return simm::Status::ok;
  }
  // How many of the first `pages` pages answer so.
  int count(int pages, simm::Status status) {
    int counted = 0;
    for (int page = 0; page < pages; ++page) counted += get(page) == status ? 1 : 0;
    return counted;
  }
  int put_all(int pages, simm::Status status) {
    int counted = 0;
    for (int page = 0; page < pages; ++page) counted += put(page) == status ? 1 : 0;
    return counted;
  }

private:
  static simm::Client connect(const DaemonProcess& node) {
    simm::ClientOptions options;
    options.socket_path = node.socket();
    auto client = simm::Client::connect(options);
    REQUIRE(client.has_value());
    return std::move(*client);
  }
  simm::Region allocate() {
    auto region = client_.allocate_region(2 * kPageBytes);
    REQUIRE(region.has_value());
    return std::move(*region);
  }
  std::string key(int page) const { return before_ + std::to_string(page) + after_; }
  void fill(std::size_t at, int page) {
    for (std::size_t i = 0; i < kPageBytes; ++i) {
      region_.data()[at + i] =
          static_cast<std::byte>((static_cast<std::size_t>(page) * 131 + i * 7) >> 3);
    }
  }

  simm::Client client_;
  simm::Region region_;
  const std::string before_;
  const std::string after_;
};

}  // namespace cluster_processes
