#include "daemon/memory/gpu/gpu_keeper.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "daemon/memory/gpu/gpu_worker.h"

namespace simm::memory {

namespace {

// As long as a helper may take for an answer: on a busy host a process waits a second for a CPU.
constexpr std::uint64_t kKeeperNs = 5'000'000'000;
constexpr int kReapEveryMs = 100;

void answer_daemon(ipc::FdSocket& socket, const KeeperReply& reply, std::span<const int> fds) {
  // A daemon that does not take its answers has gone: the next turn finds out.
  (void)socket.send(std::as_bytes(std::span(&reply, 1)), fds, kKeeperNs);
}

[[noreturn]] void become_worker(const KeeperRequest& request, ipc::Received received,
                                ipc::FdSocket daemon, pid_t keeper) {
  ::prctl(PR_SET_NAME, "simmd-gpu");
  if (!die_with_parent(keeper)) ::_exit(1);
  daemon.close();
  GpuWorkerSetup setup;
  setup.uuid = request.uuid;
  setup.control = ipc::FdSocket(std::move(received.fds[0]));
  setup.jobs = ipc::FdSocket(std::move(received.fds[1]));
  setup.file = std::move(received.fds[2]);
  setup.arena = std::move(received.fds[3]);
  setup.arena_bytes = request.arena_bytes;
  setup.pins_arena = request.pins_arena != 0;
  run_gpu_worker(std::move(setup));
}

// Until the daemon hangs up.
void keep(ipc::FdSocket socket) {
  const pid_t keeper = ::getpid();
  for (;;) {
    pollfd ready{socket.fd(), POLLIN, 0};
    (void)::poll(&ready, 1, kReapEveryMs);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (ready.revents == 0) continue;
    KeeperRequest request;
    ipc::Received received = socket.try_receive(std::as_writable_bytes(std::span(&request, 1)));
    if (received.result == ipc::SocketResult::would_block) continue;
    if (received.result != ipc::SocketResult::done || received.bytes != sizeof request) return;
    const std::size_t expected = request.arena_bytes > 0 ? 4 : 3;
    if (received.fd_count != expected) {
      answer_daemon(socket, {request.number, static_cast<std::int32_t>(Status::invalid_argument)},
                    {});
      continue;
    }
    const pid_t child = ::fork();
    if (child == 0) become_worker(request, std::move(received), std::move(socket), keeper);
    const ipc::UniqueFd pidfd(child < 0 ? -1
                                        : static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    if (!pidfd && child > 0) ::kill(child, SIGKILL);
    const std::array<int, 1> fds{pidfd.get()};
    const Status status = pidfd ? Status::ok : Status::out_of_memory;
    answer_daemon(socket, {request.number, static_cast<std::int32_t>(status), child},
                  std::span(fds).first(pidfd ? 1 : 0));
  }
}

}  // namespace

Expected<StartedHelper> start_gpu_keeper(const std::function<Outcome()>& drop_privileges) {
  const pid_t daemon = ::getpid();
  return fork_helper("simmd-gpus", [&](ipc::FdSocket socket) -> Outcome {
    if (Outcome dropped = drop_privileges(); !dropped) return dropped;
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return system_error("no_new_privs", errno);
    // Changing the user has ended that.
    if (die_with_parent(daemon)) keep(std::move(socket));
    return Done{};
  });
}

Expected<StartedGpuWorker> GpuKeeper::start(const GpuUuid& uuid, const GpuWorkerFiles& files) {
  KeeperRequest request;
  request.number = next_number_++;
  request.uuid = uuid;
  request.arena_bytes = files.arena_bytes;
  request.pins_arena = files.pins_arena ? 1 : 0;
  const std::array<int, 4> fds{files.control, files.jobs, files.file, files.arena};
  const auto trouble = [](ipc::SocketResult result) {
    return Error{Status::unreachable,
                 result == ipc::SocketResult::would_block
                     ? "the keeper of GPU helpers did not answer for 5 seconds: has this host CPU "
                       "time to spare?"
                     : "the keeper of GPU helpers has gone: restart simmd"};
  };
  const auto given = std::span(fds).first(files.arena_bytes > 0 ? 4 : 3);
  const ipc::SocketResult sent =
      socket_.send(std::as_bytes(std::span(&request, 1)), given, kKeeperNs);
  if (sent != ipc::SocketResult::done) return trouble(sent);
  for (;;) {
    KeeperReply reply;
    ipc::Received received =
        socket_.receive(std::as_writable_bytes(std::span(&reply, 1)), kKeeperNs);
    if (received.result != ipc::SocketResult::done || received.bytes != sizeof reply) {
      return trouble(received.result);
    }
    if (reply.number != request.number) continue;  // of a request that was given up
    if (received.fd_count != 1) {
      return Error{static_cast<Status>(reply.status), "the keeper of GPU helpers can not fork"};
    }
    return StartedGpuWorker{std::move(received.fds[0]), reply.pid};
  }
}

}  // namespace simm::memory
