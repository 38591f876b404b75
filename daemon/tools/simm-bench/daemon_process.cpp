#include "daemon/tools/simm-bench/daemon_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "daemon/tools/simm-bench/subprocess.h"
#include "simm/client.h"

namespace simm::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// True when the child has ended within the time; then it is reaped.
bool ended_within(pid_t pid, std::chrono::seconds limit) {
  const auto end = steady_clock::now() + limit;
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    if (steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

bool has_clients(const std::string& role) {
  return role == "all" || role == "node";
}

nlohmann::json configuration_of(const DaemonOptions& options, const std::string& directory,
                                const nlohmann::json& sockets) {
  nlohmann::json configuration = {{"run_directory", directory},
                                  {"node", {{"pool_bytes", options.pool_bytes}}},
                                  {"memory", {{"foreign", options.allow_foreign}}},
                                  {"threading", {{"mode", "shared"}}}};
  if (has_clients(options.role)) configuration["sockets"] = sockets;
  configuration.merge_patch(options.more);
  return configuration;
}

}  // namespace

Expected<DaemonProcess> DaemonProcess::start(const DaemonOptions& options) {
  Expected<TemporaryDirectory> made = TemporaryDirectory::make();
  if (!made) return made.error();
  const std::string directory = made->path();
  DaemonProcess daemon(std::move(*made));
  daemon.socket_path_ = directory + "/simm.sock";
  daemon.other_path_ = options.has_other_tenant ? directory + "/other.sock" : daemon.socket_path_;
  nlohmann::json sockets = {{{"path", daemon.socket_path_}}};
  if (options.has_other_tenant) {
    sockets.push_back({{"path", daemon.other_path_}, {"tenant", "other"}});
  }
  const std::string configuration_path = directory + "/simmd.json";
  std::ofstream(configuration_path)
      << configuration_of(options, directory, sockets).dump(2) << "\n";
  const int log_fd =
      open((directory + "/simmd.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0) return system_error(directory + "/simmd.log", errno);
  SpawnOptions spawn_options;
  spawn_options.environment = options.environment;
  spawn_options.cpu = options.cpu;
  spawn_options.network = options.network;
  spawn_options.stdout_fd = log_fd;
  spawn_options.stderr_fd = log_fd;
  const Expected<pid_t> pid =
      spawn({program_path("simmd"), options.role, "--config", configuration_path}, spawn_options);
  close(log_fd);
  if (!pid) return pid.error();
  daemon.pid_ = *pid;
  if (!has_clients(options.role)) return daemon;
  const Outcome ready = daemon.wait_until_it_answers();
  if (!ready) return ready.error();
  return daemon;
}

DaemonProcess::DaemonProcess(DaemonProcess&& other) noexcept
    : directory_(std::move(other.directory_)),
      socket_path_(std::move(other.socket_path_)),
      other_path_(std::move(other.other_path_)),
      pid_(std::exchange(other.pid_, -1)) {}

DaemonProcess::~DaemonProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGTERM);
  if (ended_within(pid_, std::chrono::seconds(10))) return;
  std::fprintf(stderr, "simm-bench: simmd %d did not stop within 10 s, killed\n", pid_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Outcome DaemonProcess::check_alive() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) return Done{};
  pid_ = -1;
  return Error{Status::unreachable, "simmd ended by itself, its last words: " + log_tail()};
}

Outcome DaemonProcess::wait_until_it_answers() {
  ClientOptions options;
  options.socket_path = socket_path_;
  options.connect_timeout_ms = 1000;
  std::string why;
  for (const auto end = steady_clock::now() + std::chrono::seconds(30);
       steady_clock::now() < end;) {
    const Outcome alive = check_alive();
    if (!alive) return alive;
    Expected<Client> client = Client::connect(options);
    if (client && client->ping() == Status::ok) return Done{};
    if (!client) why = client.error().context;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return Error{Status::timeout,
               "simmd does not answer within 30 s (" + why + "), its last words: " + log_tail()};
}

std::string DaemonProcess::log_tail() const {
  std::ifstream file(directory_.path() + "/simmd.log");
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  return all.size() <= 1000 ? all : all.substr(all.size() - 1000);
}

Expected<pid_t> daemon_pid(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) {
    return Error{Status::invalid_argument, "--daemon " + socket_path + ": too long for a socket"};
  }
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error("socket", errno);
  ucred peer{};
  socklen_t bytes = sizeof peer;
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
  const int error = errno;
  close(fd);
  if (!connected) return system_error("--daemon " + socket_path, error);
  return peer.pid;
}

}  // namespace simm::bench
