#include "daemon/memory/helper/foreign_worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "daemon/memory/helper/foreign_job.h"
#include "daemon/memory/helper/helper_privilege.h"
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
    const ssize_t count = is_write_slot(job.slot)
                              ? ::process_vm_writev(client.pid, &local, 1, &remote, 1, 0)
                              : ::process_vm_readv(client.pid, &local, 1, &remote, 1, 0);
    if (count <= 0) return false;
    done += static_cast<std::uint64_t>(count);
  }
  return static_cast<bool>(check_after(client));
}

// All other descriptors: what the helper has open is nobody else's business.
void close_all_but(int first, int second) noexcept {
  const auto low = static_cast<unsigned>(std::min(first, second));
  const auto high = static_cast<unsigned>(std::max(first, second));
  constexpr unsigned kFirst = 3;
  if (low > kFirst) ::syscall(SYS_close_range, kFirst, low - 1, 0u);
  if (high > low + 1) ::syscall(SYS_close_range, low + 1, high - 1, 0u);
  ::syscall(SYS_close_range, high + 1, ~0u, 0u);
}

// Takes the client's user. From here on nobody but the kernel and root reaches this process.
Outcome close_off(const ForeignWorkerSetup& setup) {
  const uid_t uid = setup.client.uid;
  const bool is_other_user = uid != ::geteuid() || setup.gid != ::getegid();
  if (is_other_user || uid == 0) {
    if (Outcome became = become_client(uid, setup.gid); !became) return became;
  }
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return system_error("PR_SET_DUMPABLE", errno);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // changing the user has cleared it
  return Done{};
}

struct WorkerMemory {
  ipc::Mapping bounce;
  ipc::Mapping arena;
};

Expected<WorkerMemory> map_memory(const ForeignWorkerSetup& setup) {
  ipc::MappingOptions options{.dont_fork = true, .dont_dump = true};
  Expected<ipc::Mapping> bounce = ipc::Mapping::map(setup.bounce.get(), 0, kBounceBytes, options);
  if (!bounce) return std::move(bounce).error();
  options.writable = false;
  Expected<ipc::Mapping> arena =
      ipc::Mapping::map(setup.arena.get(), 0, setup.arena_bytes, options);
  if (!arena) return std::move(arena).error();
  return WorkerMemory{std::move(bounce).value(), std::move(arena).value()};
}

ForeignWorkerExit serve(const ClientProcess& client, ipc::FdSocket& jobs,
                        const WorkerMemory& memory) {
  for (;;) {
    ForeignJob job;
    const ipc::Received received =
        jobs.receive(std::as_writable_bytes(std::span(&job, 1)), kHourNs);
    if (received.result == ipc::SocketResult::would_block) continue;
    if (received.result != ipc::SocketResult::done || received.bytes != sizeof job) {
      return ForeignWorkerExit::hung_up;
    }
    if (!is_job_sound(job, memory.arena.bytes())) return ForeignWorkerExit::unsound_job;
    // SAFETY: is_job_sound() made sure that the bytes lie inside.
    std::byte* const own = is_write_slot(job.slot) ? memory.arena.data() + job.arena_offset
                                                   : bounce_bytes(memory.bounce.data(), job.slot);
    const bool is_copied = carry_out(client, job, own);
    bounce_slot(memory.bounce.data(), job.slot)
        .settle(is_copied ? PieceSlotState::ok : PieceSlotState::failed);
  }
}

ForeignWorkerExit run(ForeignWorkerSetup& setup) {
  if (!check_before(setup.client)) return ForeignWorkerExit::wrong_client;
  if (!close_off(setup)) return ForeignWorkerExit::no_privilege;
  if (::getppid() != setup.helper) return ForeignWorkerExit::hung_up;  // before that took effect
  Expected<WorkerMemory> memory = map_memory(setup);
  if (!memory) return ForeignWorkerExit::no_memory;
  close_all_but(setup.client.pidfd, setup.jobs.fd());
  if (!enter_worker_sandbox()) return ForeignWorkerExit::no_privilege;
  return serve(setup.client, setup.jobs, *memory);
}

}  // namespace

void run_foreign_worker(ForeignWorkerSetup setup) {
  const ForeignWorkerExit how = run(setup);
  ::_exit(static_cast<int>(how));  // past the destructors: the descriptors are closed already
}

}  // namespace simm::memory
