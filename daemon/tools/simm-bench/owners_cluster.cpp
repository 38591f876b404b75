#include "daemon/tools/simm-bench/owners_cluster.h"

#include <signal.h>

#include <chrono>
#include <thread>

#include "daemon/base/secret_file.h"
#include "daemon/tools/simm-bench/loopback_cluster.h"

namespace simm::bench {
namespace {

DaemonOptions member(const std::string& role, const std::string& name, const std::string& manager,
                     const std::string& secret_path, const OwnersOptions& options) {
  DaemonOptions result;
  result.role = role;
  result.pool_bytes = role == "storage" ? options.pool_bytes : 0;
  // Stalls of a shared machine are not deaths.
  result.more = {{"cluster",
                  {{"manager", manager},
                   {"secret_file", secret_path},
                   {"node_name", name},
                   {"detection_ms", 5'000},
                   {"move_bytes_per_s", options.move_bytes_per_s}}},
                 {"threading", {{"data_agents", 1}}},
                 {"drain_ms", options.drain_ms},
                 {"manager", {{"listen", manager}, {"member_timeout_ms", 5'000}}}};
  return result;
}

std::string owner_name(std::size_t number) {
  return "owner-" + std::to_string(number);
}

void signal_daemon(const DaemonProcess& daemon, int signal) {
  if (daemon.pid() > 0) kill(daemon.pid(), signal);
}

}  // namespace

OwnersCluster::~OwnersCluster() {
  for (const DaemonProcess& owner : owners_) signal_daemon(owner, SIGKILL);
}

Expected<OwnersCluster> OwnersCluster::start(const OwnersOptions& options) {
  Expected<TemporaryDirectory> directory = TemporaryDirectory::make();
  if (!directory) return directory.error();
  const std::string secret_path = directory->path() + "/secret";
  const Outcome written = base::create_secret_file(secret_path);
  if (!written) return written.error();
  Expected<std::string> address = free_address();
  if (!address) return address.error();
  Expected<DaemonProcess> manager =
      DaemonProcess::start(member("manager", "manager", *address, secret_path, options));
  if (!manager) return manager.error();
  std::vector<DaemonProcess> owners;
  for (unsigned i = 0; i < options.owners; ++i) {
    Expected<DaemonProcess> owner =
        DaemonProcess::start(member("storage", owner_name(i), *address, secret_path, options));
    if (!owner) return owner.error();
    owners.push_back(std::move(*owner));
  }
  Expected<DaemonProcess> node =
      DaemonProcess::start(member("node", "node", *address, secret_path, options));
  if (!node) return node.error();
  OwnersCluster cluster(std::move(*directory), std::move(*manager), std::move(*node),
                        std::move(owners), options, *address);
  const Outcome connected = cluster.wait_until_connected();
  if (!connected) return connected.error();
  return cluster;
}

Outcome OwnersCluster::wait_until_connected() {
  using std::chrono::steady_clock;
  std::string seen;
  for (const auto end = steady_clock::now() + std::chrono::seconds(30);
       steady_clock::now() < end;) {
    const Expected<nlohmann::json> answer = ask_daemon(node_.admin_path(), {"peers"});
    if (!answer) return answer.error();
    seen = answer->dump();
    std::size_t connected = 0;
    for (const nlohmann::json& peer : answer->value("peers", nlohmann::json::array())) {
      const int connections = peer.value("connections", 0);
      connected += connections > 0 && peer.value("open", 0) == connections ? 1u : 0u;
    }
    if (connected == owners_.size()) return Done{};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Error{Status::timeout, "the cluster did not come together within 30 s: " + seen};
}

Expected<std::vector<std::uint64_t>> OwnersCluster::counted(const std::string& name) const {
  std::vector<std::uint64_t> counts;
  for (const DaemonProcess& owner : owners_) {
    const Expected<nlohmann::json> counters =
        ask_daemon(owner.admin_path(), {"stats", "server.0." + name});
    if (!counters) return counters.error();
    counts.push_back(counters->value("server.0." + name, std::uint64_t{0}));
  }
  return counts;
}

Outcome OwnersCluster::add_owner() {
  Expected<DaemonProcess> owner = DaemonProcess::start(member(
      "storage", owner_name(owners_.size()), address_, directory_.path() + "/secret", options_));
  if (!owner) return owner.error();
  owners_.push_back(std::move(*owner));
  return Done{};
}

void OwnersCluster::stop_first_owner() const {
  signal_daemon(owners_.front(), SIGTERM);
}

Outcome OwnersCluster::drain_first_owner() const {
  const Expected<nlohmann::json> answer = ask_daemon(owners_.front().admin_path(), {"drain"});
  return answer ? Outcome(Done{}) : Outcome(answer.error());
}

}  // namespace simm::bench
