#include "daemon/memory/adopt_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace simm::memory {

namespace {

constexpr std::uint64_t kWaitNs = 1'000'000'000;
constexpr std::uint64_t kDialNs = 100'000'000;
static_assert(kWaitNs > kHelperAnswerNs);

}  // namespace

// Puts the new connection in the place of the old one, which ends with that: so do the workers that
// the old helper still has.
bool AdoptClient::dial_again() noexcept {
  if (path_.empty()) return false;
  auto dialled = ipc::FdSocket::connect(path_, kDialNs);
  if (!dialled || ::dup3(dialled->fd(), socket_.fd(), O_CLOEXEC) < 0) return false;
  gone_.store(false);
  return true;
}

Expected<Adopted> AdoptClient::ask(const ipc::PeerIdentity& client, HelperRequest request,
                                   std::span<const int> more_fds) {
  if (client.pidfd() < 0 || client.start_time_ticks() == 0) {
    return Error{Status::permission_denied,
                 "the client's process can not be named from here (another pid namespace?)"};
  }
  if (gone_.load() && !dial_again()) {
    return Error{Status::unreachable, "the adoption helper has gone"};
  }
  request.request_id = next_request_id_++;
  request.pid = client.pid();
  request.uid = client.uid();
  request.gid = client.gid();
  request.start_time_ticks = client.start_time_ticks();
  std::array<int, ipc::kFdsPerMessageMax> fds{client.pidfd()};
  std::copy(more_fds.begin(), more_fds.end(), fds.begin() + 1);
  const auto sent = socket_.send(std::as_bytes(std::span(&request, 1)),
                                 std::span(fds).first(1 + more_fds.size()), kWaitNs);
  // Answers to requests that were given up on may still lie in the socket.
  for (HelperReply reply; sent == ipc::SocketResult::done;) {
    ipc::Received received = socket_.receive(std::as_writable_bytes(std::span(&reply, 1)), kWaitNs);
    if (received.result != ipc::SocketResult::done || received.bytes != sizeof reply) break;
    if (reply.request_id != request.request_id) continue;
    reply.reason[sizeof reply.reason - 1] = '\0';
    const auto status = static_cast<Status>(reply.status);
    if (status != Status::ok) return Error{status, reply.reason};
    if (received.fd_count != 1) break;
    return Adopted{std::move(received.fds[0]), reply.file_offset};
  }
  gone_.store(true);
  return Error{Status::unreachable, "the adoption helper has gone"};
}

Expected<Adopted> AdoptClient::adopt(const ipc::PeerIdentity& client, std::uint64_t address,
                                     std::uint64_t length) {
  HelperRequest request;
  request.op = HelperOp::adopt;
  request.address = address;
  request.length = length;
  return ask(client, request, {});
}

Expected<SpawnedWorker> AdoptClient::spawn_worker(const ipc::PeerIdentity& client,
                                                  const WorkerFiles& files) {
  HelperRequest request;
  request.op = HelperOp::spawn;
  request.worker = next_worker_++;
  request.length = files.arena_bytes;
  const std::array<int, 3> fds{files.jobs, files.bounce, files.arena};
  Expected<Adopted> answer = ask(client, request, fds);
  if (!answer) return std::move(answer).error();
  return SpawnedWorker{std::move(answer->fd), request.worker};
}

bool AdoptClient::kill_worker(std::uint32_t name) noexcept {
  HelperRequest request;
  request.op = HelperOp::kill;
  request.worker = name;
  // A helper that has gone took its workers with it.
  return socket_.try_send(std::as_bytes(std::span(&request, 1))) != ipc::SocketResult::would_block;
}

}  // namespace simm::memory
