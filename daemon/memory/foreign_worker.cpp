#include "daemon/memory/foreign_worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include <span>
#include <utility>

#include "daemon/memory/foreign_job.h"
#include "daemon/memory/helper_privilege.h"
#include "ipc/mapping.h"

namespace simm::memory {

namespace {

constexpr std::uint64_t kHourNs = 3'600'000'000'000;

// The system call takes a pid and no pidfd: so the process is looked at before and after. (Between
// the two the number could name another process only if this one was reaped and all numbers were
// used up meanwhile; that one would have to belong to the same user too.)
bool carry_out(const ClientProcess& client, const ForeignJob& job, std::byte* own) {
  std::uint64_t done = 0;
  while (done < job.length) {
    if (!check_after(client)) return false;
    iovec local{own + done, job.length - done};
    // SAFETY: an address of another process; the kernel checks it there.
    iovec remote{reinterpret_cast<void*>(job.client_address + done), job.length - done};
    const ssize_t count = job.is_write != 0
                              ? ::process_vm_writev(client.pid, &local, 1, &remote, 1, 0)
                              : ::process_vm_readv(client.pid, &local, 1, &remote, 1, 0);
    if (count <= 0) return false;
    done += static_cast<std::uint64_t>(count);
  }
  return static_cast<bool>(check_after(client));
}

}  // namespace

int run_foreign_worker(const ClientProcess& client, gid_t gid, ipc::FdSocket jobs,
                       ipc::UniqueFd bounce) {
  Expected<ipc::Mapping> mapping = ipc::Mapping::map(bounce.get(), 0, kBounceBytes);
  if (!mapping || !check_before(client)) return 1;
  const bool is_other_user = client.uid != ::geteuid() || gid != ::getegid();
  if ((is_other_user || client.uid == 0) && !become_client(client.uid, gid)) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // changing the user has cleared it
  for (;;) {
    ForeignJob job;
    const ipc::Received received =
        jobs.receive(std::as_writable_bytes(std::span(&job, 1)), kHourNs);
    if (received.result == ipc::SocketResult::would_block) continue;
    if (received.result != ipc::SocketResult::done || received.bytes != sizeof job) return 0;
    if (job.slot >= kBounceSlots || job.length == 0 || job.length > kBounceSlotBytes) return 3;
    const bool is_ok = carry_out(client, job, bounce_bytes(mapping->data(), job.slot));
    const BounceState state = is_ok ? BounceState::ok : BounceState::failed;
    bounce_slot(mapping->data(), job.slot)
        .state.store(static_cast<std::uint32_t>(state), std::memory_order_release);
  }
}

}  // namespace simm::memory
