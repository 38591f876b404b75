#include "daemon/process/privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "ipc/fd.h"
#include "simm/check.h"

namespace simm {
namespace {

using ipc::UniqueFd;

Expected<passwd> account_of(const std::string& user) {
  errno = 0;
  const passwd* found = ::getpwnam(user.c_str());  // start-up: no other thread yet
  if (found != nullptr) return *found;
  return Error{Status::invalid_argument,
               "user = " + user + ": there is no such user; create it or leave the key out"};
}

bool is_trusted(uid_t owner, uid_t user) {
  return owner == 0 || owner == ::geteuid() || owner == user;
}

// Whoever owns a directory, or may write to it, can replace the sockets in it. A sticky one, as
// /tmp, keeps the files of each from the others.
Outcome refuse_what_others_own(const std::string& path, int directory, uid_t user) {
  struct stat link {};
  struct stat info {};
  if (::lstat(path.c_str(), &link) != 0 || ::fstat(directory, &info) != 0) {
    return system_error("run_directory: " + path, errno);
  }
  if (!is_trusted(link.st_uid, user) || !is_trusted(info.st_uid, user)) {
    const uid_t owner = is_trusted(info.st_uid, user) ? link.st_uid : info.st_uid;
    return Error{Status::permission_denied,
                 "run_directory = " + path + ": belongs to user " + std::to_string(owner) +
                     ", who could replace the daemon's sockets; remove it, or name another one"};
  }
  if ((info.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH) {
    return Error{Status::permission_denied, "run_directory = " + path +
                                                ": everybody may write to it, and replace the "
                                                "daemon's sockets; chmod o-w it"};
  }
  return Done{};
}

}  // namespace

Outcome prepare_run_directory(const base::Config& config) {
  const std::string& path = config.run_directory;
  const mode_t mode = ::geteuid() == 0 ? 0755 : 0700;
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return system_error("run_directory: can not make " + path, errno);
  }
  const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return system_error("run_directory: " + path, errno);
  uid_t user = ::geteuid();
  gid_t group = ::getegid();
  if (!config.user.empty() && user == 0) {
    const auto account = account_of(config.user);
    if (!account) return account.error();
    user = account->pw_uid;
    group = account->pw_gid;
  }
  if (Outcome safe = refuse_what_others_own(path, directory.get(), user); !safe) return safe;
  if (user == ::geteuid()) return Done{};
  if (::fchown(directory.get(), user, group) != 0) {
    return system_error("run_directory: chown " + path, errno);
  }
  return Done{};
}

Outcome raise_descriptor_limit() {
  rlimit bound{};
  if (::getrlimit(RLIMIT_NOFILE, &bound) != 0) return system_error("getrlimit", errno);
  if (bound.rlim_cur == bound.rlim_max) return Done{};
  bound.rlim_cur = bound.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &bound) != 0) return system_error("setrlimit NOFILE", errno);
  return Done{};
}

Outcome become_user(const std::string& user) {
  if (user.empty()) return Done{};
  const auto account = account_of(user);
  if (!account) return account.error();
  if (account->pw_uid == ::geteuid()) return Done{};
  if (::geteuid() != 0) {
    return Error{Status::permission_denied,
                 "user = " + user + ": only root can become another user; start as root or as " +
                     user + ", or leave the key out"};
  }
  if (::initgroups(user.c_str(), account->pw_gid) != 0) return system_error("initgroups", errno);
  if (::setresgid(account->pw_gid, account->pw_gid, account->pw_gid) != 0) {
    return system_error("setresgid", errno);
  }
  if (::setresuid(account->pw_uid, account->pw_uid, account->pw_uid) != 0) {
    return system_error("setresuid", errno);
  }
  SIMM_CHECK(account->pw_uid == 0 || ::setuid(0) != 0);
  return Done{};
}

}  // namespace simm
