// PeerIdentity: who is at the other end of a Unix socket, as the kernel recorded it when that side
// connected. Nothing in it comes from a message.
//
// A pid is only a number: its process may be gone and the number in use again. So the identity
// holds a pidfd. SO_PEERPIDFD names the very process; on kernels without it pidfd_open is followed
// by a check of owner and start time. Whoever acts on the number compares the start time before the
// act, and asks for life after it (daemon/memory/helper/client_process.h). On the older kernels a
// process of the same user that reused the number before the identity was taken can not be told
// apart. That process could have connected itself.
//
// Thread: any, immutable after of().
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::ipc {

// How the pidfd is obtained; `by_number` is what old kernels get, selectable so that tests run it.
enum class PidfdSource : std::uint8_t { kernel_or_number, by_number };

class PeerIdentity {
public:
  // unreachable when the peer's process has gone. A peer in a pid namespace that this process can
  // not see has pid() 0 and no pidfd. Hang-up of the socket is then the only sign of its death.
  static Expected<PeerIdentity> of(int socket_fd,
                                   PidfdSource source = PidfdSource::kernel_or_number);

  [[nodiscard]] uid_t uid() const noexcept { return uid_; }
  [[nodiscard]] gid_t gid() const noexcept { return gid_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] int pidfd() const noexcept { return pidfd_.get(); }
  // Clock ticks since boot, /proc/<pid>/stat field 22; 0 when it could not be read.
  [[nodiscard]] std::uint64_t start_time_ticks() const noexcept { return start_time_ticks_; }

  // False once the process has exited (a zombie counts as exited). True when that can not be known.
  [[nodiscard]] bool is_alive() const noexcept;

private:
  UniqueFd pidfd_;
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  pid_t pid_ = 0;
  std::uint64_t start_time_ticks_ = 0;
};

// Start time of a process in clock ticks since boot, 0 when there is none or it can not be read.
std::uint64_t process_start_time_ticks(pid_t pid) noexcept;
// A pidfd of the calling process; invalid where the kernel has none (before 5.3). It is readable
// once the process has ended: every thread is gone and every descriptor is released.
UniqueFd own_pidfd() noexcept;
// True while the process of a pidfd has not exited.
bool pidfd_is_alive(int pidfd) noexcept;

}  // namespace simm::ipc
