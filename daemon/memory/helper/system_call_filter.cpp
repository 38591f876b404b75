#include "daemon/memory/helper/system_call_filter.h"

#include <seccomp.h>

#include <cerrno>
#include <memory>

namespace simm::memory {

namespace {

struct FilterRelease {
  void operator()(void* filter) const noexcept { seccomp_release(filter); }
};

}  // namespace

Outcome install_system_call_filter(std::span<const int> allowed) {
  const std::unique_ptr<void, FilterRelease> filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (filter == nullptr) return Error{Status::out_of_memory, "no memory for a system call filter"};
  for (const int call : allowed) {
    if (seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0) != 0) {
      return Error{Status::unsupported, "system call filter: rule refused"};
    }
  }
  const int loaded = seccomp_load(filter.get());
  if (loaded != 0) return system_error("load the system call filter", -loaded);
  return Done{};
}

}  // namespace simm::memory
