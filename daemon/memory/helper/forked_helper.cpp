#include "daemon/memory/helper/forked_helper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace simm::memory {

bool die_with_parent(pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return ::getppid() == parent;  // else it died before that took effect
}

Expected<StartedHelper> fork_helper(const char* name,
                                    const std::function<Outcome(ipc::FdSocket)>& serve) {
  auto pair = ipc::FdSocket::pair();
  if (!pair) return std::move(pair).error();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return system_error(std::string("fork of ") + name, errno);
  if (child == 0) {
    ::prctl(PR_SET_NAME, name);
    if (!die_with_parent(parent)) ::_exit(1);
    ::setsid();  // Ctrl-C is for the daemon, which then ends us
    // Nothing that the daemon had open is the helper's business.
    const int socket = ::fcntl(pair->second.fd(), F_DUPFD_CLOEXEC, 3);
    if (socket > 3) ::syscall(SYS_close_range, 3u, static_cast<unsigned>(socket) - 1, 0u);
    ::syscall(SYS_close_range, static_cast<unsigned>(socket) + 1, ~0u, 0u);
    ::_exit(serve(ipc::FdSocket(ipc::UniqueFd(socket))) ? 0 : 1);
  }
  return StartedHelper{std::move(pair->first), child};
}

}  // namespace simm::memory
