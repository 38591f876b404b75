#include "ipc/fd_listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "ipc/unix_address.h"

namespace simm::ipc {
namespace {

constexpr int kLockTriesMax = 200;
constexpr timespec kLockPause = {0, 10'000'000};

// Two daemons that start at once must not each find the other's file stale. So a daemon that
// replaces a socket file holds a lock until the new one listens. The lock is of a file that nobody
// else may open: else others could lock that file for as long as they like.
Expected<UniqueFd> lock_beside(const std::string& path) {
  const std::string name = path + ".lock";
  UniqueFd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!fd) return system_error("open the lock file " + name, errno);
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return system_error("fstat " + name, errno);
  if (!S_ISREG(file.st_mode) || file.st_uid != ::geteuid() || (file.st_mode & 077) != 0) {
    return Error{Status::permission_denied,
                 name + " is not a file of this user alone (mode 0600): remove it"};
  }
  for (int tries = 0; ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) return system_error("lock " + name, errno);
    if (tries == kLockTriesMax) {
      return Error{Status::exists, "another process of this user holds the lock of " + name +
                                       " (fuser " + name + " names it): end that process"};
    }
    ::nanosleep(&kLockPause, nullptr);
  }
  return fd;
}

// Removes the socket file at `path` if it is one that nobody listens on.
Outcome remove_stale(const std::string& path, const UnixAddress& address) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) {
    return errno == ENOENT ? Outcome(Done{}) : Outcome(system_error("lstat " + path, errno));
  }
  if (!S_ISSOCK(file.st_mode)) {
    return Error{Status::exists, path + " exists and is not a socket: remove it"};
  }
  UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return system_error("socket", errno);
  // EPROTOTYPE means that a socket of another type listens there: somebody's, so not stale.
  if (::connect(probe.get(), address.get(), address.length()) == 0 || errno != ECONNREFUSED) {
    return Error{Status::exists, "another process listens on " + path};
  }
  if (::unlink(path.c_str()) != 0) return system_error("remove stale socket " + path, errno);
  return Done{};
}

}  // namespace

Expected<FdListener> FdListener::listen(const std::string& path, mode_t mode, int backlog) {
  Expected<UnixAddress> address = UnixAddress::of(path);
  if (!address) return std::move(address).error();
  Expected<UniqueFd> lock = lock_beside(path);
  if (!lock) return std::move(lock).error();
  if (Outcome clear = remove_stale(path, *address); !clear) return std::move(clear).error();

  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  if (::bind(fd.get(), address->get(), address->length()) != 0) {
    return system_error("bind " + path, errno);
  }
  FdListener result(std::move(fd));
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return system_error("lstat " + path, errno);
  result.path_ = path;
  result.device_ = file.st_dev;
  result.inode_ = file.st_ino;
  // Before listen() nobody can connect, so the umask's permissions never count. A link that
  // somebody has put there meanwhile is not followed.
  if (::fchmodat(AT_FDCWD, path.c_str(), mode, AT_SYMLINK_NOFOLLOW) != 0) {
    return system_error("chmod " + path, errno);
  }
  if (::listen(result.fd(), backlog) != 0) return system_error("listen on " + path, errno);
  return result;
}

Expected<FdListener> FdListener::adopt(UniqueFd fd) {
  int type = 0;
  int domain = 0;
  int listening = 0;
  socklen_t size = sizeof type;
  const bool known = ::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
                     ::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
                     ::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0;
  if (!known || type != SOCK_SEQPACKET || domain != AF_UNIX || listening == 0) {
    return Error{Status::invalid_argument,
                 "the inherited descriptor is not a listening SOCK_SEQPACKET Unix socket"};
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
    return system_error("flags of the inherited socket", errno);
  }
  return FdListener(std::move(fd));
}

Outcome FdListener::give_to(uid_t user, gid_t group) {
  const UniqueFd file(::open(path_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) return system_error("open " + path_, errno);
  if (facts.st_dev != device_ || facts.st_ino != inode_) {
    return Error{Status::permission_denied, path_ + " was replaced by another file"};
  }
  if (::fchownat(file.get(), "", user, group, AT_EMPTY_PATH) != 0) {
    return system_error("chown " + path_, errno);
  }
  return Done{};
}

FdListener::FdListener(FdListener&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

FdListener& FdListener::operator=(FdListener&& other) noexcept {
  if (this == &other) return *this;
  remove_file();
  fd_ = std::move(other.fd_);
  path_ = std::exchange(other.path_, {});
  device_ = other.device_;
  inode_ = other.inode_;
  return *this;
}

FdListener::~FdListener() {
  remove_file();
}

void FdListener::remove_file() noexcept {
  if (path_.empty()) return;
  struct stat file {};
  if (::lstat(path_.c_str(), &file) != 0) return;
  if (file.st_dev == device_ && file.st_ino == inode_) ::unlink(path_.c_str());
  path_.clear();
}

Expected<std::optional<FdSocket>> FdListener::accept() {
  for (;;) {
    UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) return std::optional<FdSocket>(FdSocket(std::move(fd)));
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return std::optional<FdSocket>();
    return system_error("accept", errno);
  }
}

}  // namespace simm::ipc
