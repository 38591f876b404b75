#include "daemon/control/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

namespace simm::control {
namespace {

constexpr int kFirstInherited = 3;            // SD_LISTEN_FDS_START
constexpr std::uint64_t kInheritedMax = 256;  // more is a broken environment, not a plan

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

bool is_for_us(const char* pid_variable) {
  const auto pid = number(environment(pid_variable));
  return pid.has_value() && *pid == static_cast<std::uint64_t>(::getpid());
}

std::string bound_path(int fd) {
  sockaddr_un address{};
  socklen_t length = sizeof address;
  // SAFETY: sockaddr_un begins with the family that every sockaddr has; the kernel writes at most
  // `length` bytes.
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  if (address.sun_family != AF_UNIX || length <= offsetof(sockaddr_un, sun_path)) return {};
  if (address.sun_path[0] == '\0') return {};
  return std::string(address.sun_path, ::strnlen(address.sun_path, sizeof address.sun_path));
}

}  // namespace

std::vector<InheritedSocket> take_inherited_sockets() {
  std::vector<InheritedSocket> sockets;
  const std::uint64_t count = number(environment("LISTEN_FDS")).value_or(0);
  std::istringstream names(environment("LISTEN_FDNAMES"));
  if (is_for_us("LISTEN_PID") && count <= kInheritedMax) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const int fd = kFirstInherited + static_cast<int>(i);
      std::string name;
      std::getline(names, name, ':');
      if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) continue;  // it was promised and is not there
      InheritedSocket socket;
      socket.fd.reset(fd);
      socket.name = name;
      socket.path = bound_path(fd);
      sockets.push_back(std::move(socket));
    }
  }
  for (const char* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
  return sockets;
}

ServiceManager::ServiceManager() : address_(environment("NOTIFY_SOCKET")) {
  const auto allowed_us = number(environment("WATCHDOG_USEC"));
  const bool ours = environment("WATCHDOG_PID").empty() || is_for_us("WATCHDOG_PID");
  if (allowed_us && *allowed_us > 1 && ours) {
    watchdog_interval_ = std::chrono::microseconds(*allowed_us / 2);
  }
  files_max_ = number(environment("FDSTORE")).value_or(0);
  for (const char* variable : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "FDSTORE"}) {
    ::unsetenv(variable);
  }
}

void ServiceManager::ready(const std::string& status) {
  send("READY=1\nMAINPID=" + std::to_string(::getpid()) + "\nSTATUS=" + status);
}
void ServiceManager::status(const std::string& status) {
  send("STATUS=" + status);
}
void ServiceManager::extend_start(std::chrono::microseconds time, const std::string& status) {
  send("EXTEND_TIMEOUT_USEC=" + std::to_string(time.count()) + "\nSTATUS=" + status);
}
void ServiceManager::stopping(const std::string& status) {
  send("STOPPING=1\nSTATUS=" + status);
}
void ServiceManager::watchdog() {
  send("WATCHDOG=1");
}

// FDPOLL=0: nobody has to look whether a file of memory has hung up.
void ServiceManager::keep_file(const std::string& name, int fd) {
  send("FDSTOREREMOVE=1\nFDNAME=" + name);
  send("FDSTORE=1\nFDPOLL=0\nFDNAME=" + name, fd);
}

// A message that can not be delivered is not our failure: nobody listens, or it listens slowly.
void ServiceManager::send(const std::string& message, int fd) {
  sockaddr_un address{};
  if (address_.empty() || address_.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // an abstract address
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const ipc::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return;
  iovec text{const_cast<char*>(message.data()), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_name = &address;
  header.msg_namelen = length;
  header.msg_iov = &text;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof fd);
    // SAFETY: CMSG_SPACE(sizeof(int)) has room for one descriptor behind the header.
    std::memcpy(CMSG_DATA(first), &fd, sizeof fd);
  }
  // A file waits for room in the queue: it is sent once, and what is lost is the whole cache.
  const int flags = MSG_NOSIGNAL | (fd >= 0 ? 0 : MSG_DONTWAIT);
  [[maybe_unused]] const ssize_t sent = ::sendmsg(socket.get(), &header, flags);
}

}  // namespace simm::control
