#include "daemon/privileges.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "simm/check.h"

namespace simm {
namespace {

Expected<passwd> account_of(const std::string& user) {
  errno = 0;
  const passwd* found = ::getpwnam(user.c_str());  // start-up: no other thread yet
  if (found != nullptr) return *found;
  return Error{Status::invalid_argument,
               "user = " + user + ": there is no such user; create it or leave the key out"};
}

}  // namespace

Outcome prepare_run_directory(const base::Config& config) {
  const std::string& path = config.run_directory;
  const mode_t mode = ::geteuid() == 0 ? 0755 : 0700;
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return system_error("run_directory: can not make " + path, errno);
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return system_error("run_directory: " + path, errno);
  if (!S_ISDIR(info.st_mode)) {
    return Error{Status::invalid_argument, "run_directory = " + path + ": not a directory"};
  }
  if (config.user.empty() || ::geteuid() != 0) return Done{};
  const auto account = account_of(config.user);
  if (!account) return account.error();
  if (::chown(path.c_str(), account->pw_uid, account->pw_gid) != 0) {
    return system_error("run_directory: chown " + path, errno);
  }
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
