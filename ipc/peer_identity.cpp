#include "ipc/peer_identity.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simm::ipc {
namespace {

#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD =
    77;  // Linux 6.5; headers of the distributions that we build on lack it
#endif

UniqueFd peer_pidfd_from_kernel(int socket_fd) noexcept {
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (::getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) return UniqueFd();
  ::fcntl(pidfd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(pidfd);
}

UniqueFd pidfd_by_number(pid_t pid, uid_t uid) noexcept {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return pidfd;
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d", pid);
  struct stat owner {};
  // A process that is not dumpable shows uid 0 here whoever runs it: that proves nothing either
  // way.
  if (::stat(path.data(), &owner) != 0) return UniqueFd();
  if (owner.st_uid != uid && owner.st_uid != 0) return UniqueFd();
  return pidfd;
}

}  // namespace

std::uint64_t process_start_time_ticks(pid_t pid) noexcept {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
  UniqueFd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return 0;
  std::array<char, 1024> text{};
  const ssize_t count = ::read(file.get(), text.data(), text.size() - 1);
  if (count <= 0) return 0;
  // The second field is the program's own name in parentheses and may contain anything. So the
  // fields are counted from the last ')', which ends field 2; the start time is field 22.
  const char* cursor = std::strrchr(text.data(), ')');
  for (int field = 2; cursor != nullptr && field < 22; ++field) {
    cursor = std::strchr(cursor + 1, ' ');
  }
  return cursor == nullptr ? 0 : std::strtoull(cursor + 1, nullptr, 10);
}

UniqueFd own_pidfd() noexcept {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

bool pidfd_is_alive(int pidfd) noexcept {
  pollfd entry{pidfd, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, 0);
  } while (ready < 0 && errno == EINTR);
  return ready == 0;
}

Expected<PeerIdentity> PeerIdentity::of(int socket_fd, PidfdSource source) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return system_error("SO_PEERCRED", errno);
  }
  PeerIdentity result;
  result.uid_ = credentials.uid;
  result.gid_ = credentials.gid;
  result.pid_ = credentials.pid;
  if (result.pid_ == 0) return result;  // lives in a pid namespace that we do not see

  if (source == PidfdSource::kernel_or_number) result.pidfd_ = peer_pidfd_from_kernel(socket_fd);
  if (!result.pidfd_) result.pidfd_ = pidfd_by_number(result.pid_, result.uid_);
  if (!result.pidfd_) {
    return Error{Status::unreachable,
                 "process " + std::to_string(result.pid_) + " of the connection has gone"};
  }
  // Read after the pidfd was opened and before the process is seen alive: so it is its start time.
  result.start_time_ticks_ = process_start_time_ticks(result.pid_);
  if (!pidfd_is_alive(result.pidfd_.get())) {
    return Error{Status::unreachable,
                 "process " + std::to_string(result.pid_) + " of the connection has exited"};
  }
  return result;
}

bool PeerIdentity::is_alive() const noexcept {
  return !pidfd_ || pidfd_is_alive(pidfd_.get());
}

}  // namespace simm::ipc
