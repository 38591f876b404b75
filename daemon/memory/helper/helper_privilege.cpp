#include "daemon/memory/helper/helper_privilege.h"

#include <grp.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <iterator>
#include <vector>

#include "daemon/memory/helper/system_call_filter.h"

namespace simm::memory {

namespace {

#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40  // Linux 5.9
#endif

using CapabilitySet = std::uint64_t;
constexpr CapabilitySet bit(int capability) {
  return CapabilitySet{1} << capability;
}

struct Capabilities {
  CapabilitySet effective = 0;
  CapabilitySet permitted = 0;
};

bool get_capabilities(Capabilities& result) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  result.effective = data[0].effective | CapabilitySet{data[1].effective} << 32;
  result.permitted = data[0].permitted | CapabilitySet{data[1].permitted} << 32;
  return true;
}

bool set_capabilities(const Capabilities& wanted) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  data[0].effective = static_cast<std::uint32_t>(wanted.effective);
  data[1].effective = static_cast<std::uint32_t>(wanted.effective >> 32);
  data[0].permitted = static_cast<std::uint32_t>(wanted.permitted);
  data[1].permitted = static_cast<std::uint32_t>(wanted.permitted >> 32);
  return ::syscall(SYS_capset, &header, data) == 0;
}

// What the helper and its children call, the sanitizers' run-time libraries included. What is not
// here fails with EPERM: socket, connect, execve, ptrace, mount, bpf, ...
constexpr int kAllowed[] = {SCMP_SYS(read),
                            SCMP_SYS(write),
                            SCMP_SYS(openat),
                            SCMP_SYS(close),
                            SCMP_SYS(fstat),
                            SCMP_SYS(newfstatat),
                            SCMP_SYS(fstatfs),
                            SCMP_SYS(lseek),
                            SCMP_SYS(fcntl),
                            SCMP_SYS(recvmsg),
                            SCMP_SYS(sendmsg),
                            SCMP_SYS(accept4),
                            SCMP_SYS(getsockopt),
                            SCMP_SYS(poll),
                            SCMP_SYS(ppoll),
                            SCMP_SYS(mmap),
                            SCMP_SYS(munmap),
                            SCMP_SYS(mprotect),
                            SCMP_SYS(madvise),
                            SCMP_SYS(mremap),
                            SCMP_SYS(brk),
                            SCMP_SYS(futex),
                            SCMP_SYS(clone),
                            SCMP_SYS(wait4),
                            SCMP_SYS(waitid),
                            SCMP_SYS(exit),
                            SCMP_SYS(exit_group),
                            SCMP_SYS(rt_sigaction),
                            SCMP_SYS(rt_sigprocmask),
                            SCMP_SYS(rt_sigreturn),
                            SCMP_SYS(sigaltstack),
                            SCMP_SYS(getpid),
                            SCMP_SYS(gettid),
                            SCMP_SYS(getppid),
                            SCMP_SYS(tgkill),
                            SCMP_SYS(kill),
                            SCMP_SYS(pidfd_open),
                            SCMP_SYS(clock_gettime),
                            SCMP_SYS(getrandom),
                            SCMP_SYS(set_robust_list),
                            SCMP_SYS(rseq),
                            SCMP_SYS(restart_syscall),
                            SCMP_SYS(sched_yield),
                            SCMP_SYS(capget),
                            SCMP_SYS(capset),
                            SCMP_SYS(setfsuid),
                            SCMP_SYS(setfsgid),
                            SCMP_SYS(setresuid),
                            SCMP_SYS(setresgid),
                            SCMP_SYS(geteuid),
                            SCMP_SYS(getegid),
                            SCMP_SYS(getuid),
                            SCMP_SYS(getgid),
                            SCMP_SYS(prctl),
                            SCMP_SYS(seccomp),
                            SCMP_SYS(close_range)};

// What is left to a foreign worker: to hear of jobs, to copy, and to end. The rest is its own
// memory and signals, for the C library and the sanitizers' run-time libraries.
constexpr int kWorkerAllowed[] = {SCMP_SYS(process_vm_readv),
                                  SCMP_SYS(process_vm_writev),
                                  SCMP_SYS(recvmsg),
                                  SCMP_SYS(poll),
                                  SCMP_SYS(ppoll),
                                  SCMP_SYS(restart_syscall),
                                  SCMP_SYS(clock_gettime),
                                  SCMP_SYS(exit),
                                  SCMP_SYS(exit_group),
                                  SCMP_SYS(futex),
                                  SCMP_SYS(mmap),
                                  SCMP_SYS(munmap),
                                  SCMP_SYS(mprotect),
                                  SCMP_SYS(madvise),
                                  SCMP_SYS(brk),
                                  SCMP_SYS(write),
                                  SCMP_SYS(getpid),
                                  SCMP_SYS(gettid),
                                  SCMP_SYS(rt_sigaction),
                                  SCMP_SYS(rt_sigprocmask),
                                  SCMP_SYS(rt_sigreturn),
                                  SCMP_SYS(sigaltstack),
                                  SCMP_SYS(sched_yield)};

// The worker's second user: nobody's processes are its, so none can have all three of its ids.
constexpr uid_t kNobody = 65534;
constexpr uid_t other_than(uid_t uid) {
  return uid == kNobody ? kNobody - 1 : kNobody;
}

Outcome install_helper_filter(const HelperOptions& options) {
  std::vector<int> allowed(std::begin(kAllowed), std::end(kAllowed));
  if (options.foreign) {
    allowed.insert(allowed.end(), {SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev)});
  }
  return install_system_call_filter(allowed);
}

}  // namespace

Expected<HelperPrivilege> enter_helper_sandbox(const HelperOptions& options) {
  Capabilities have;
  if (!get_capabilities(have)) return system_error("capget", errno);
  CapabilitySet wanted = bit(CAP_SETUID) | bit(CAP_SETGID);
  if (options.adopt) wanted |= bit(CAP_CHECKPOINT_RESTORE);
  if (options.foreign) wanted |= bit(CAP_KILL);
  if (options.root_clients) wanted |= bit(CAP_SYS_PTRACE);

  // Groups of the daemon must not open files for a client. Not being allowed to drop them means not
  // being allowed to act as another user either.
  (void)!::setgroups(0, nullptr);
  const CapabilitySet kept = have.permitted & wanted;
  if (!set_capabilities({kept & ~bit(CAP_SYS_PTRACE), kept})) return system_error("capset", errno);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return system_error("no_new_privs", errno);
  if (Outcome filtered = install_helper_filter(options); !filtered)
    return std::move(filtered).error();

  HelperPrivilege privilege;
  privilege.can_switch_user = (kept & bit(CAP_SETUID)) != 0 && (kept & bit(CAP_SETGID)) != 0;
  privilege.can_adopt = privilege.can_switch_user && (kept & bit(CAP_CHECKPOINT_RESTORE)) != 0;
  return privilege;
}

Outcome act_as_client(uid_t uid, gid_t gid) {
  // These calls return the id before them and report no error: a second one tells the truth.
  ::setfsgid(gid);
  ::setfsuid(uid);
  const bool is_client = static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == uid &&
                         static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) == gid;
  if (!is_client) {
    return Error{Status::permission_denied,
                 "the helper may not act as user " + std::to_string(uid) + " (needs CAP_SETUID)"};
  }
  Capabilities have;
  if (uid != 0 || !get_capabilities(have)) return Done{};
  // A root client's process has capabilities, so looking into it takes one too.
  if (!set_capabilities({have.permitted, have.permitted})) return system_error("capset", errno);
  return Done{};
}

Outcome become_client(uid_t uid, gid_t gid) {
  Capabilities have;
  if (!get_capabilities(have)) return system_error("capget", errno);
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return system_error("PR_SET_KEEPCAPS", errno);
  // One call for all three ids, so there is no moment in which all of them are the client's.
  if (::setresgid(gid, other_than(gid), other_than(gid)) != 0 ||
      ::setresuid(uid, other_than(uid), other_than(uid)) != 0) {
    return Error{Status::permission_denied,
                 "the helper may not become user " + std::to_string(uid) + " (needs CAP_SETUID)"};
  }
  const CapabilitySet kept = uid == 0 ? have.permitted & bit(CAP_SYS_PTRACE) : 0;
  if (!set_capabilities({kept, kept})) return system_error("capset", errno);
  return Done{};
}

Outcome enter_worker_sandbox() {
  return install_system_call_filter(kWorkerAllowed);
}

}  // namespace simm::memory
