#include "daemon/process/adopt_service.h"

#include <poll.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/real_clock.h"
#include "daemon/memory/helper/adopt_helper.h"
#include "ipc/fd_listener.h"

namespace simm {
namespace {

constexpr int kBacklog = 4;
constexpr mode_t kOwnerOnly = 0600;

memory::HelperOptions helper_options(const base::Config& config) {
  memory::HelperOptions options;
  options.adopt = config.memory.adopt;
  options.foreign = config.memory.foreign;
  options.root_clients = config.memory.adopt_root_clients;
  return options;
}

Expected<ipc::FdListener> listen_for_daemon(const base::Config& config, const std::string& path,
                                            std::vector<control::InheritedSocket> inherited) {
  if (!inherited.empty()) return ipc::FdListener::adopt(std::move(inherited.front().fd));
  if (path.empty()) {
    return Error{Status::invalid_argument,
                 "simmd adopt needs a socket: --socket PATH, the same as memory.adopt_socket of "
                 "the daemon, or one handed over by the service manager"};
  }
  auto listener = ipc::FdListener::listen(path, kOwnerOnly, kBacklog);
  if (!listener || config.user.empty()) return listener;
  const passwd* account = ::getpwnam(config.user.c_str());  // start-up: no other thread
  if (account == nullptr) {
    return system_error("user = " + config.user + ": can not own " + path, errno);
  }
  if (Outcome given = listener->give_to(account->pw_uid, account->pw_gid); !given) {
    return std::move(given).error();
  }
  return listener;
}

// Whose daemon is served, besides root's.
Expected<uid_t> uid_of_daemon(const base::Config& config) {
  if (config.user.empty()) return ::geteuid();
  const passwd* account = ::getpwnam(config.user.c_str());  // start-up: no other thread
  if (account != nullptr) return account->pw_uid;
  return Error{Status::invalid_argument, "user = " + config.user +
                                             ": there is no such user; create it or leave the key "
                                             "out"};
}

// As the kernel recorded it when the peer connected.
std::optional<uid_t> uid_of_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  return peer.uid;
}

}  // namespace

memory::HelperLink reach_adopt_helper(const base::Config& config) {
  if (!config.memory.adopt && !config.memory.foreign) {
    return {{}, "memory.adopt is off"};
  }
  if (!config.memory.adopt_socket.empty()) {
    auto connected = ipc::FdSocket::connect(config.memory.adopt_socket, base::kNsPerSecond);
    if (connected) return {std::move(*connected), ""};
    return {{}, "memory.adopt_socket: " + connected.error().context};
  }
  if (::geteuid() != 0) {
    return {{},
            "no privilege: start simmd as root, or run 'simmd adopt' and set "
            "memory.adopt_socket"};
  }
  auto started = memory::start_adopt_helper(helper_options(config));
  if (!started) return {{}, started.error().context};
  return {std::move(started->socket), ""};
}

Outcome run_adopt_service(const base::Config& config, const std::string& path,
                          std::vector<control::InheritedSocket> inherited) {
  auto listener = listen_for_daemon(config, path, std::move(inherited));
  if (!listener) return std::move(listener).error();
  const auto daemon_uid = uid_of_daemon(config);
  if (!daemon_uid) return daemon_uid.error();
  const base::RealClock clock;
  base::Log log(clock, config.log.level, 2, base::Log::stderr_is_journal(), config.log.format);
  auto helper = memory::AdoptHelper::enter(helper_options(config));
  if (!helper) return std::move(helper).error();
  while (true) {
    pollfd polled{listener->fd(), POLLIN, 0};
    if (::poll(&polled, 1, -1) < 0 && errno != EINTR) return system_error("poll", errno);
    auto accepted = listener->accept();
    if (!accepted) return std::move(accepted).error();
    if (!accepted->has_value()) continue;
    const auto uid = uid_of_peer((*accepted)->fd());
    if (uid == daemon_uid.value() || uid == uid_t{0}) {
      helper->serve(std::move(**accepted));
    } else {
      log.warning("adopt", "somebody who is not the daemon's user connected, and is not served",
                  {{"uid", uid ? std::to_string(*uid) : "unknown"}});
    }
  }
}

}  // namespace simm
