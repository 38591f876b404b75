#include "daemon/tools/simm-bench/bell_storm.h"

#include <sched.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/tools/simm-bench/pinning.h"
#include "ipc/bell_socket.h"
#include "ipc/client_lane.h"
#include "ipc/control_codec.h"
#include "ipc/fd_socket.h"
#include "ipc/mapping.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kPatienceNs = 10'000'000'000;
constexpr std::uint64_t kRingsOfAStorm = 1'000;
// Half a second where nothing else runs. One that can not blow at all says why much earlier.
constexpr std::chrono::seconds kStartLimit{120};

struct Attached {
  ipc::FdSocket socket;
  ipc::Mapping memory;
  ipc::BellSocket bell{-1};
};

Outcome ask(ipc::FdSocket& socket, const ipc::ClientMessage& message, ipc::Received& received,
            ipc::DaemonMessage& answer) {
  const auto packet = ipc::encode(message);
  if (!packet) return packet.error();
  std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
  if (socket.send(*packet, {}, kPatienceNs) == ipc::SocketResult::done) {
    received = socket.receive(buffer, kPatienceNs);
  }
  if (received.result != ipc::SocketResult::done) {
    return Error{Status::unreachable, "storm: the daemon does not answer"};
  }
  auto decoded = ipc::decode_daemon_message(std::span(buffer).first(received.bytes));
  if (!decoded) return decoded.error();
  answer = std::move(*decoded);
  return Done{};
}

Expected<Attached> attach(const std::string& socket_path) {
  auto connected = ipc::FdSocket::connect(socket_path, kPatienceNs);
  if (!connected) return connected.error();
  Attached attached;
  attached.socket = std::move(*connected);
  ipc::Hello hello;
  hello.client_name = "storm";
  hello.lane_count = 1;
  ipc::Received received;
  ipc::DaemonMessage answer;
  Outcome asked = ask(attached.socket, hello, received, answer);
  if (!asked) return asked.error();
  const auto* welcome = std::get_if<ipc::Welcome>(&answer);
  if (welcome == nullptr || received.fd_count != ipc::kWelcomeFds) {
    return Error{Status::unreachable, "storm: the daemon refused it"};
  }
  auto mapping = ipc::Mapping::map(received.fds[0].get(), 0, welcome->session_bytes);
  if (!mapping) return mapping.error();
  attached.memory = std::move(*mapping);
  attached.bell = ipc::BellSocket(received.fds[1].release());
  ipc::Received opened;
  asked = ask(attached.socket, ipc::Mapped{}, opened, answer);
  if (!asked) return asked.error();
  return attached;
}

Outcome lower_priority() {
  const sched_param none{};
  if (::sched_setscheduler(0, SCHED_IDLE, &none) != 0) return system_error("SCHED_IDLE", errno);
  return Done{};
}

Outcome blow(const std::string& socket_path, StormPriority priority,
             std::atomic<std::uint64_t>& rings) {
  Expected<Attached> attached = attach(socket_path);
  if (!attached) return attached.error();
  // SAFETY: the daemon said that the memory has one lane at least; it begins behind the header.
  ipc::ClientLane lane(ipc::LaneMemory(attached->memory.data() + sizeof(ipc::SessionHeader)));
  const ipc::Submission noop{};
  while (attached->bell.ring()) {
    (void)lane.push(noop);  // a full ring is rung for all the same
    ipc::Completion completion{};
    while (lane.poll_completion(completion) == ipc::Poll::taken) {
    }
    // Only now: beside other work, a process of idle priority might not get as far as this.
    if (rings.load() + 1 == kRingsOfAStorm && priority == StormPriority::idle) {
      const Outcome lowered = lower_priority();
      if (!lowered) return lowered;
    }
    rings.fetch_add(1, std::memory_order_relaxed);
  }
  return Error{Status::unreachable, "storm: the daemon threw it out"};
}

}  // namespace

Outcome BellStorm::start(BellStorm& storm, const std::string& socket_path, int cpu,
                         StormPriority priority) {
  const Outcome forked = storm.process_.fork_child([&]() -> Outcome {
    if (cpu >= 0) pin_this_thread(cpu);
    return blow(socket_path, priority, storm.rings_[0]);
  });
  if (!forked) return forked;
  const auto end = std::chrono::steady_clock::now() + kStartLimit;
  while (storm.rings() < kRingsOfAStorm) {
    const Outcome alive = storm.process_.check();
    if (!alive) return alive;
    if (std::chrono::steady_clock::now() >= end) {
      return Error{Status::timeout, "storm: it does not get going"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Done{};
}

}  // namespace simm::bench
