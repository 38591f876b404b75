#include "daemon/memory/helper/system_call_filter.h"

#include <seccomp.h>

#include <cerrno>
#include <memory>

namespace simm::memory {

namespace {

struct FilterRelease {
  void operator()(void* filter) const noexcept { seccomp_release(filter); }
};

Outcome install(std::uint32_t otherwise, std::uint32_t of_named, std::span<const int> named) {
  const std::unique_ptr<void, FilterRelease> filter(seccomp_init(otherwise));
  if (filter == nullptr) return Error{Status::out_of_memory, "no memory for a system call filter"};
  for (const int call : named) {
    if (seccomp_rule_add(filter.get(), of_named, call, 0) != 0) {
      return Error{Status::unsupported, "system call filter: rule refused"};
    }
  }
  const int loaded = seccomp_load(filter.get());
  if (loaded != 0) return system_error("load the system call filter", -loaded);
  return Done{};
}

}  // namespace

Outcome install_system_call_filter(std::span<const int> allowed) {
  return install(SCMP_ACT_ERRNO(EPERM), SCMP_ACT_ALLOW, allowed);
}

Outcome deny_system_calls(std::span<const int> denied) {
  return install(SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), denied);
}

}  // namespace simm::memory
