#include "daemon/memory/helper/adopt_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "ipc/futex.h"

namespace simm::memory {

namespace {

constexpr std::uint64_t kWaitNs = 1'000'000'000;
constexpr std::uint64_t kDialNs = 100'000'000;
constexpr std::uint64_t kLateNs = 10'000'000'000;
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

bool AdoptClient::is_late() noexcept {
  if (late_until_ns_ == 0) return false;
  HelperReply old;
  const ipc::Received received = socket_.try_receive(std::as_writable_bytes(std::span(&old, 1)));
  const bool silent = received.result == ipc::SocketResult::would_block;
  if (silent && ipc::monotonic_now_ns() < late_until_ns_) return true;
  late_until_ns_ = 0;
  if (silent) gone_.store(!path_.empty());  // a service may be another process by now
  return false;
}

Expected<Adopted> AdoptClient::ask(const ipc::PeerIdentity& client, HelperRequest request,
                                   std::span<const int> more_fds) {
  if (client.pidfd() < 0 || client.start_time_ticks() == 0) {
    return Error{Status::permission_denied,
                 "the client's process can not be named from here (another pid namespace?)"};
  }
  const Error gone{Status::unreachable, "the adoption helper has gone"};
  const Error late{Status::unreachable, "the adoption helper does not answer in time"};
  if (is_late()) return late;
  if (gone_.load() && !dial_again()) return gone;
  request.request_id = next_request_id_++;
  request.pid = client.pid();
  request.uid = client.uid();
  request.gid = client.gid();
  request.start_time_ticks = client.start_time_ticks();
  std::array<int, ipc::kFdsPerMessageMax> fds{client.pidfd()};
  std::copy(more_fds.begin(), more_fds.end(), fds.begin() + 1);
  const auto all_fds = std::span<const int>(fds).first(1 + more_fds.size());
  auto answer = exchange(request, all_fds);
  // It was started again since the last request: the new one is asked at once.
  if (answer.result == ipc::SocketResult::hung_up && dial_again()) {
    answer = exchange(request, all_fds);
  }
  if (answer.result == ipc::SocketResult::would_block) {
    late_until_ns_ = ipc::monotonic_now_ns() + kLateNs;
    return late;
  }
  const auto status = static_cast<Status>(answer.reply.status);
  const bool is_usable =
      answer.result == ipc::SocketResult::done && (status != Status::ok || answer.fd.valid());
  if (!is_usable) {
    gone_.store(true);
    return gone;
  }
  if (status != Status::ok) return Error{status, answer.reply.reason};
  return Adopted{std::move(answer.fd), answer.reply.file_offset};
}

AdoptClient::Answer AdoptClient::exchange(const HelperRequest& request,
                                          std::span<const int> fds) noexcept {
  Answer answer;
  answer.result = socket_.send(std::as_bytes(std::span(&request, 1)), fds, kWaitNs);
  // Answers to requests that were given up on may still lie in the socket.
  while (answer.result == ipc::SocketResult::done) {
    HelperReply& reply = answer.reply;
    ipc::Received received = socket_.receive(std::as_writable_bytes(std::span(&reply, 1)), kWaitNs);
    answer.result = received.result;
    if (received.result != ipc::SocketResult::done) break;
    if (received.bytes != sizeof reply) {
      answer.result = ipc::SocketResult::failed;
    } else if (reply.request_id == request.request_id) {
      reply.reason[sizeof reply.reason - 1] = '\0';
      if (received.fd_count == 1) answer.fd = std::move(received.fds[0]);
      break;
    }
  }
  return answer;
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
