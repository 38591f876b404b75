#include "daemon/tools/simm-bench/network_guest.h"

#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>

namespace simm::bench {

Expected<ipc::UniqueFd> NetworkGuest::current() {
  constexpr const char* kOwn = "/proc/thread-self/ns/net";
  ipc::UniqueFd own(open(kOwn, O_RDONLY | O_CLOEXEC));
  if (!own) return system_error(kOwn, errno);
  return own;
}

Expected<NetworkGuest> NetworkGuest::enter(const std::string& path) {
  Expected<ipc::UniqueFd> home = current();
  if (!home) return home.error();
  if (path.empty()) {
    if (unshare(CLONE_NEWNET) != 0) {
      return system_error("a network namespace (needs root with CAP_SYS_ADMIN)", errno);
    }
    return NetworkGuest(std::move(*home));
  }
  const ipc::UniqueFd there(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!there || setns(there.get(), CLONE_NEWNET) != 0) return system_error(path, errno);
  return NetworkGuest(std::move(*home));
}

NetworkGuest::~NetworkGuest() {
  // A thread in the wrong network would do everything else there.
  if (home_.valid() && setns(home_.get(), CLONE_NEWNET) != 0) std::abort();
}

}  // namespace simm::bench
