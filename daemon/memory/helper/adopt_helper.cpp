#include "daemon/memory/helper/adopt_helper.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "daemon/memory/helper/adopt_mapping.h"
#include "daemon/memory/helper/foreign_worker.h"
#include "daemon/memory/helper/helper_children.h"
#include "daemon/memory/helper/helper_protocol.h"

namespace simm::memory {

namespace {

constexpr std::uint64_t kSendNs = 1'000'000'000;

void answer(ipc::FdSocket& socket, std::uint64_t request_id, const Error* error,
            std::uint64_t file_offset, std::span<const int> fds) {
  HelperReply reply;
  reply.request_id = request_id;
  reply.file_offset = file_offset;
  if (error != nullptr) {
    reply.status = static_cast<std::int32_t>(error->status);
    error->context.copy(reply.reason, sizeof reply.reason - 1);
  }
  const auto bytes = std::as_bytes(std::span(&reply, 1));
  // A daemon that does not take its answers has gone or will hang up: nothing to be done about it.
  (void)socket.send(bytes, fds, kSendNs);
}

void refuse(ipc::FdSocket& socket, std::uint64_t request_id, Status status, const char* reason) {
  const Error error{status, reason};
  answer(socket, request_id, &error, 0, {});
}

ClientProcess client_of(const HelperRequest& request, const ipc::UniqueFd& pidfd) {
  return {pidfd.get(), request.pid, request.uid, request.start_time_ticks};
}

// What one daemon's connection needs.
class Connection {
public:
  Connection(ipc::FdSocket socket, const HelperOptions& options, const HelperPrivilege& privilege)
      : socket_(std::move(socket)), options_(options), privilege_(privilege) {}

  void run() {
    while (turn()) {
    }
  }

private:
  // False: the daemon has hung up or talks nonsense.
  bool turn() {
    std::vector<pollfd> ready{{socket_.fd(), POLLIN, 0}};
    for (const auto& child : children_.list()) ready.push_back({child.pidfd.get(), POLLIN, 0});
    (void)::poll(ready.data(), ready.size(), children_.wait_ms());
    children_.kill_overdue();
    for (auto ended = children_.reap(); ended.any; ended = children_.reap()) {
      if (!ended.unanswered) continue;
      refuse(socket_, ended.request_id, Status::timeout,
             "the client's process could not be looked into in time");
    }
    return ready[0].revents == 0 || take_request();
  }

  bool take_request() {
    HelperRequest request;
    ipc::Received received = socket_.try_receive(std::as_writable_bytes(std::span(&request, 1)));
    if (received.result == ipc::SocketResult::would_block) return true;
    if (received.result != ipc::SocketResult::done || received.bytes != sizeof request) {
      return false;
    }
    if (request.op == HelperOp::kill) {
      children_.kill_worker(request.worker);
      return true;
    }
    if (!children_.has_room(request.op)) {
      refuse(socket_, request.request_id, Status::out_of_memory, "the helper is busy");
    } else if (request.uid == 0 && !options_.root_clients) {
      refuse(socket_, request.request_id, Status::permission_denied,
             "the helper does not serve clients that run as root (memory of uid 0)");
    } else if (request.op == HelperOp::adopt) {
      take_adopt(request, received);
    } else {
      take_spawn(request, received);
    }
    return true;
  }

  void take_adopt(const HelperRequest& request, ipc::Received& received) {
    if (!options_.adopt || !privilege_.can_adopt) {
      return refuse(socket_, request.request_id, Status::permission_denied,
                    "the helper lacks the privilege to adopt mappings "
                    "(CAP_CHECKPOINT_RESTORE, CAP_SETUID, CAP_SETGID)");
    }
    const ClientProcess client = client_of(request, received.fds[0]);
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      Expected<AdoptedFile> file =
          adopt_mapping(client, request.gid, request.address, request.length);
      if (file) {
        const std::array<int, 1> fds{file->fd.get()};
        answer(socket_, request.request_id, nullptr, file->file_offset, fds);
      } else {
        answer(socket_, request.request_id, &file.error(), 0, {});
      }
      ::_exit(0);
    }
    if (child < 0 || !children_.add_answer(child, request.request_id)) {
      refuse(socket_, request.request_id, Status::out_of_memory, "the helper can not fork");
    }
  }

  void take_spawn(const HelperRequest& request, ipc::Received& received) {
    if (!options_.foreign) {
      return refuse(socket_, request.request_id, Status::permission_denied,
                    "the helper does not run foreign copies");
    }
    if (received.fd_count != 4) {
      return refuse(socket_, request.request_id, Status::invalid_argument, "spawn: descriptors");
    }
    const pid_t helper = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ForeignWorkerSetup setup;
      setup.client = client_of(request, received.fds[0]);
      setup.gid = request.gid;
      setup.helper = helper;
      setup.jobs = ipc::FdSocket(std::move(received.fds[1]));
      setup.bounce = std::move(received.fds[2]);
      setup.arena = std::move(received.fds[3]);
      setup.arena_bytes = request.length;
      run_foreign_worker(std::move(setup));
    }
    const auto* worker = child < 0 ? nullptr : children_.add_worker(child, request.worker);
    if (worker == nullptr) {
      return refuse(socket_, request.request_id, Status::out_of_memory, "the helper can not fork");
    }
    const std::array<int, 1> fds{worker->pidfd.get()};
    answer(socket_, request.request_id, nullptr, 0, fds);
  }

  ipc::FdSocket socket_;
  const HelperOptions& options_;
  const HelperPrivilege& privilege_;
  HelperChildren children_;
};

}  // namespace

Expected<AdoptHelper> AdoptHelper::enter(const HelperOptions& options) {
  Expected<HelperPrivilege> privilege = enter_helper_sandbox(options);
  if (!privilege) return std::move(privilege).error();
  return AdoptHelper(options, *privilege);
}

void AdoptHelper::serve(ipc::FdSocket socket) {
  Connection(std::move(socket), options_, privilege_).run();
}

Expected<StartedHelper> start_adopt_helper(const HelperOptions& options) {
  return fork_helper("simmd-adopt", [&](ipc::FdSocket socket) -> Outcome {
    Expected<AdoptHelper> helper = AdoptHelper::enter(options);
    if (!helper) return std::move(helper).error();
    helper->serve(std::move(socket));
    return Done{};
  });
}

}  // namespace simm::memory
