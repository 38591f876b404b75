#include "libclient/attacher.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "ipc/attach_rules.h"
#include "ipc/control_codec.h"
#include "ipc/memory_file.h"
#include "libclient/region_memory.h"
#include "libclient/request_id.h"

namespace simm::detail {
namespace {

// After Opened the daemon may have large regions to map; it does so without holding anybody up.
constexpr std::uint64_t kRestoreTimeoutNs = 30'000'000'000;
// Requests in flight while restoring: bounded by the socket's buffer, and by this.
constexpr std::size_t kUnansweredMax = 32;

}  // namespace

Attacher::State Attacher::fail(Error error) {
  error_ = std::move(error);
  socket_.close();
  state_ = State::failed;
  return state_;
}

Attacher::State Attacher::step(std::uint64_t now_ns) {
  if (state_ == State::connecting && connect(now_ns) == State::failed) return state_;
  std::array<std::byte, ipc::kControlMessageBytesMax> buffer;
  while (state_ != State::done && state_ != State::failed) {
    ipc::Received received = socket_.try_receive(buffer);
    if (received.result == ipc::SocketResult::would_block) {
      if (now_ns < give_up_ns_) return state_;
      return fail(Error{Status::timeout, settings_.socket_path +
                                             ": the daemon accepted the connection and does not "
                                             "answer; is it stopped or overloaded?"});
    }
    if (received.result != ipc::SocketResult::done) {
      return fail(Error{Status::unreachable, settings_.socket_path +
                                                 ": the daemon closed the connection while the "
                                                 "session was being opened"});
    }
    on_message(std::span(buffer.data(), received.bytes), received);
    if (state_ == State::restoring) send_restores();
  }
  return state_;
}

Attacher::State Attacher::connect(std::uint64_t now_ns) {
  Expected<ipc::FdSocket> connected = ipc::FdSocket::connect(settings_.socket_path, 1'000'000);
  if (!connected) {
    found_daemon_ = connected.status() == Status::timeout;
    if (connected.status() == Status::unreachable) {
      return fail(Error{Status::unreachable,
                        "no daemon at " + settings_.socket_path + " (" + connected.error().context +
                            "): start `simmd all`, or name its socket in SIMM_SOCKET"});
    }
    if (connected.status() == Status::permission_denied) {
      return fail(Error{Status::permission_denied,
                        connected.error().context + ": add this user to the group that " +
                            "`ls -l` shows for the socket (of the packages: simm-clients), and " +
                            "let the user log in again"});
    }
    return fail(std::move(connected).error());
  }
  socket_ = std::move(*connected);
  found_daemon_ = true;
  give_up_ns_ = now_ns + settings_.answer_timeout_ns;
  if (!send(settings_.hello)) return state_;
  return state_ = State::waiting_welcome;
}

bool Attacher::send(const ipc::ClientMessage& message, std::span<const int> fds) {
  const Expected<std::vector<std::byte>> packet = ipc::encode(message);
  if (!packet) {
    fail(packet.error());
    return false;
  }
  // A new socket has room for these few messages.
  if (socket_.try_send(*packet, fds) == ipc::SocketResult::done) return true;
  fail(Error{Status::unreachable, settings_.socket_path + ": the daemon closed the connection"});
  return false;
}

Attacher::State Attacher::on_message(std::span<const std::byte> packet, ipc::Received& received) {
  const Expected<ipc::DaemonMessage> message = ipc::decode_daemon_message(packet);
  if (!message) return fail(message.error());
  if (const auto* refused = std::get_if<ipc::Refused>(&*message)) {
    return fail(Error{refused->status, settings_.socket_path + ": " + refused->reason});
  }
  if (const auto* poisoned = std::get_if<ipc::Poisoned>(&*message)) {
    const bool late = poisoned->reason == ipc::PoisonReason::handshake_timeout;
    return fail(
        Error{late ? Status::timeout : Status::unreachable,
              settings_.socket_path + ": the daemon ended the session while it was opened" +
                  (late ? ": this process took too long: is the machine overloaded? (The "
                          "daemon's session.handshake_ms)"
                        : ", reason " + std::to_string(static_cast<int>(poisoned->reason)))});
  }
  const auto* welcome = std::get_if<ipc::Welcome>(&*message);
  if (state_ == State::waiting_welcome && welcome != nullptr) return on_welcome(*welcome, received);
  if (state_ == State::waiting_opened && std::holds_alternative<ipc::Opened>(*message)) {
    return on_opened();
  }
  if (state_ == State::restoring) return on_reply(*message);
  return fail(Error{Status::incompatible, settings_.socket_path +
                                              ": the daemon sent an answer that does not belong "
                                              "here; are client and daemon of one version?"});
}

Attacher::State Attacher::on_welcome(const ipc::Welcome& welcome, ipc::Received& received) {
  if (Outcome fits = ipc::check_welcome(welcome); !fits) return fail(std::move(fits).error());
  const bool has_process = (welcome.extensions & ipc::kProcessDescriptor) != 0;
  const bool has_mark = (welcome.extensions & ipc::kDeathMark) != 0;
  const bool has_memory = (welcome.extensions & ipc::kClientMemory) == 0;
  const std::size_t own = ipc::kWelcomeFds - (has_memory ? 0 : 1);
  const std::size_t expected = own + (has_process ? 1 : 0) + (has_mark ? 1 : 0);
  if (received.fd_count != expected) {
    return fail(Error{Status::incompatible, "the daemon sent " + std::to_string(received.fd_count) +
                                                " descriptors with its welcome, not " +
                                                std::to_string(expected)});
  }
  if (welcome.lane_count < settings_.lanes_min) {
    return fail(Error{Status::incompatible,
                      "the daemon grants " + std::to_string(welcome.lane_count) +
                          " lanes and this process needs " + std::to_string(settings_.lanes_min) +
                          ": raise the daemon's limit of lanes a session, or lower the client's"});
  }
  ipc::UniqueFd memory = has_memory ? std::move(received.fds[0]) : ipc::UniqueFd();
  if (!map_memory(welcome, memory)) return state_;
  bell_ = ipc::BellSocket(received.fds[own - 1].release());
  if (has_process) process_ = std::move(received.fds[own]);
  if (has_mark) {
    auto watch = ipc::DeathWatch::map(received.fds[expected - 1].get());
    if (!watch) return fail(std::move(watch).error());
    death_watch_ = std::move(*watch);
  }
  welcome_ = welcome;
  const int passed = memory.get();
  if (!send(ipc::Mapped{}, std::span(&passed, has_memory ? 0 : 1))) return state_;
  return state_ = State::waiting_opened;
}

bool Attacher::map_memory(const ipc::Welcome& welcome, ipc::UniqueFd& file) {
  if (!file) {
    ipc::MemoryFileSpec spec;
    spec.name = "simm-session-" + std::to_string(welcome.session_id);
    spec.bytes = welcome.session_bytes;
    spec.prefault = true;
    Expected<ipc::MemoryFile> made = ipc::MemoryFile::create(spec);
    if (!made) {
      Error error = std::move(made).error();
      error.context = "session memory of " + std::to_string(welcome.lane_count) +
                      " lanes: " + error.context +
                      ": give this process more memory, or ask for fewer lanes";
      fail(std::move(error));
      return false;
    }
    file = made->release();
  }
  ipc::MappingOptions options;
  options.dont_fork = true;
  options.dont_dump = true;
  Expected<ipc::Mapping> mapping = ipc::Mapping::map(file.get(), 0, welcome.session_bytes, options);
  if (!mapping) {
    fail(std::move(mapping).error());
    return false;
  }
  memory_ = std::move(*mapping);
  // The page table is filled now, so that no call pays for it later. The daemon takes no page that
  // nobody has touched.
  prefault(memory_.data(), memory_.bytes());
  return true;
}

Attacher::State Attacher::on_opened() {
  give_up_ns_ += kRestoreTimeoutNs;
  if (settings_.restore) waiting_ = settings_.restore(settings_.generation);
  return state_ = State::restoring;
}

Attacher::State Attacher::on_reply(const ipc::DaemonMessage& message) {
  const std::uint64_t id = request_id_of(message);
  if (id == 0 || id > sent_.size() || !sent_[id - 1]) {
    return fail(Error{Status::incompatible, settings_.socket_path + ": a reply to no request"});
  }
  std::optional<RestoreTask> more = sent_[id - 1]->apply(message);
  sent_[id - 1].reset();
  --unanswered_;
  if (more) waiting_.push_back(std::move(*more));
  return state_;
}

Attacher::State Attacher::send_restores() {
  while (!waiting_.empty() && unanswered_ < kUnansweredMax) {
    RestoreTask& task = waiting_.front();
    std::optional<HeldRegion> held;
    if (task.region != nullptr && !held.emplace(*task.region, task.region_generation)) {
      waiting_.pop_front();
      continue;
    }
    set_request_id(task.message, sent_.size() + 1);
    const Expected<std::vector<std::byte>> packet = ipc::encode(task.message);
    if (!packet) return fail(packet.error());
    const std::span<const int> fds(&task.fd, task.fd >= 0 ? 1 : 0);
    const ipc::SocketResult result = socket_.try_send(*packet, fds);
    if (result == ipc::SocketResult::would_block && unanswered_ > 0) return state_;
    if (result != ipc::SocketResult::done) {
      return fail(Error{Status::unreachable, settings_.socket_path + ": the connection broke"});
    }
    sent_.emplace_back(std::move(task));
    waiting_.pop_front();
    ++unanswered_;
  }
  if (unanswered_ > 0) return state_;
  session_ = std::make_shared<Session>(settings_.generation, std::move(socket_), std::move(bell_),
                                       std::move(memory_), std::move(welcome_), std::move(process_),
                                       std::move(death_watch_));
  return state_ = State::done;
}

}  // namespace simm::detail
