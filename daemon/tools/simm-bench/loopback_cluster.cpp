#include "daemon/tools/simm-bench/loopback_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "daemon/base/secret_file.h"
#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/subprocess.h"

namespace simm::bench {
namespace {

constexpr const char* kManagerPort = ":30001";  // in a network of its own

// A daemon of the cluster. Stalls of a shared machine are not deaths: seconds are waited for. In a
// network of its own that is as users have it.
DaemonOptions member(const std::string& role, const std::string& manager,
                     const std::string& secret_path, const ClusterOptions& options) {
  DaemonOptions result;
  result.role = role;
  result.pool_bytes = role == "storage" ? options.pool_bytes : 0;
  result.more = {{"cluster",
                  {{"manager", manager},
                   {"secret_file", secret_path},
                   {"node_name", role},
                   {"detection_ms", 5'000}}},
                 {"node", {{"cache_bytes", options.cache_bytes}}},
                 {"manager", {{"listen", manager}, {"member_timeout_ms", 30'000}}},
                 {"wait", {{"mode", options.wait}}}};
  const NetworkPlace& place = role == "node" ? options.near_place : options.far_place;
  if (!place.path.empty()) {
    result.network = place.path;
    result.more["cluster"]["listen"] = place.address + ":0";
    result.more["cluster"].erase("detection_ms");
  }
  const auto& devices = role == "node" ? options.near_devices : options.far_devices;
  if (role == "manager" || devices.empty()) return result;
  result.more["rdma"] = {{"mode", "require"}};
  for (const std::string& device : devices) result.more["nics"].push_back({{"name", device}});
  return result;
}

// Whether a node has all its connections with that peer, and queue pairs over each of its devices.
bool is_connected(const nlohmann::json& peer, std::size_t rails) {
  const auto queue_pairs = peer.value("queue_pairs", std::size_t{0});
  return peer.value("connections", 0) > 0 &&
         peer.value("open", 0) == peer.value("connections", 0) && queue_pairs >= rails &&
         peer.value("queue_pairs_open", std::size_t{0}) == queue_pairs;
}

}  // namespace

Expected<LoopbackCluster> LoopbackCluster::start(const ClusterOptions& options) {
  Expected<TemporaryDirectory> directory = TemporaryDirectory::make();
  if (!directory) return directory.error();
  const std::string secret_path = directory->path() + "/secret";
  const Outcome written = base::create_secret_file(secret_path);
  if (!written) return written.error();
  Expected<std::string> address = options.far_place.address + kManagerPort;
  if (options.far_place.path.empty()) address = free_address();
  if (!address) return address.error();
  DaemonOptions manager_options = member("manager", *address, secret_path, options);
  DaemonOptions storage_options = member("storage", *address, secret_path, options);
  DaemonOptions node_options = member("node", *address, secret_path, options);
  storage_options.environment = options.storage_environment;
  node_options.environment = options.node_environment;
  // The two ends of a connection have a CPU each; the clients share the storage daemon's, which
  // has nothing to do while they have.
  storage_options.cpu = worker_cpu(0);
  node_options.cpu = daemon_cpu();
  Expected<DaemonProcess> manager = DaemonProcess::start(manager_options);
  if (!manager) return manager.error();
  Expected<DaemonProcess> storage = DaemonProcess::start(storage_options);
  if (!storage) return storage.error();
  Expected<DaemonProcess> node = DaemonProcess::start(node_options);
  if (!node) return node.error();
  LoopbackCluster cluster(std::move(*directory), std::move(*manager), std::move(*storage),
                          std::move(*node));
  const Outcome connected = cluster.wait_until_connected(options.near_devices.size());
  if (!connected) return connected.error();
  return cluster;
}

Outcome LoopbackCluster::wait_until_connected(std::size_t rails) {
  using std::chrono::steady_clock;
  std::string seen;
  for (const auto end = steady_clock::now() + std::chrono::seconds(30);
       steady_clock::now() < end;) {
    for (DaemonProcess* daemon : {&manager_, &storage_, &node_}) {
      const Outcome alive = daemon->check_alive();
      if (!alive) return alive;
    }
    const Expected<nlohmann::json> answer = ask_daemon(node_.admin_path(), {"peers"});
    if (!answer) return answer.error();
    seen = answer->dump();
    const nlohmann::json peers = answer->value("peers", nlohmann::json::array());
    if (peers.size() == 1 && is_connected(peers[0], rails)) return Done{};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Error{Status::timeout, "the cluster did not come together within 30 s: " + seen};
}

Expected<std::string> free_address() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound =
      fd >= 0 && bind(fd, generic, bytes) == 0 && getsockname(fd, generic, &bytes) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!is_bound) return system_error("a port on 127.0.0.1", error);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

Expected<nlohmann::json> ask_daemon(const std::string& admin_path,
                                    const std::vector<std::string>& command) {
  std::vector<std::string> arguments = {program_path("simmctl"), "--json", "--admin", admin_path};
  arguments.insert(arguments.end(), command.begin(), command.end());
  return run_json(arguments);
}

}  // namespace simm::bench
