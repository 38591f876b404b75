#include "daemon/peers/hello_session.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "simm/check.h"

namespace simm::control {

HelloSession::HelloSession(ClusterAccess& access, ipc::UniqueFd socket,
                           std::unique_ptr<cluster::HelloMachine> machine, Over over)
    : access_(access),
      socket_(std::move(socket)),
      machine_(std::move(machine)),
      readable_(access.io),
      deadline_(access.io),
      over_(std::move(over)) {}

void HelloSession::start(bool connecting, base::TimeNs time_ns) {
  started_ns_ = access_.clock.now_ns();
  const bool is_watched = readable_.watch(socket_.get());
  deadline_.after(is_watched ? time_ns : 0, [this, is_watched] {
    finish(Error{Status::timeout,
                 is_watched ? "the hello was not over in time" : "the socket can not be watched"});
  });
  if (!is_watched) return;
  // Also a dialer that is connected waits first: nothing is called from in here.
  if (connecting) {
    readable_.when_writable([this] { on_connected(); });
  } else {
    readable_.when_writable([this] { progress(); });
  }
}

void HelloSession::on_connected() {
  const Outcome connected = connect_result(socket_.get());
  if (!connected) return finish(connected.error());
  progress();
}

bool HelloSession::flush() {
  while (!machine_->outgoing().empty()) {
    const TcpMoved sent = send_tcp(socket_.get(), machine_->outgoing());
    if (sent.result == TcpResult::would_block) return true;
    if (sent.result == TcpResult::hung_up) {
      finish(Error{Status::unreachable, "the peer hung up during the hello"});
      return false;
    }
    machine_->sent(sent.bytes);
  }
  return true;
}

void HelloSession::progress() {
  using State = cluster::HelloMachine::State;
  // Bounded: a hello has four messages of fixed size, and every turn moves bytes of them.
  for (;;) {
    if (!flush()) return;
    if (!machine_->outgoing().empty()) return readable_.when_writable([this] { progress(); });
    if (machine_->state() == State::done) return finish(machine_->result());
    if (machine_->state() == State::failed) {
      return finish(Error{cluster::refusal_status(machine_->refusal()), machine_->explanation()});
    }
    std::array<std::byte, cluster::kHelloMessageBytesMax> buffer;
    // Never more than the hello wants: what follows belongs to the socket's next owner.
    const std::size_t want = std::min(buffer.size(), machine_->wanted());
    const TcpMoved got = receive_tcp(socket_.get(), std::span(buffer).first(want));
    if (got.result == TcpResult::would_block) {
      return readable_.when_readable([this] { progress(); });
    }
    if (got.result == TcpResult::hung_up) {
      return finish(Error{Status::unreachable, "the peer hung up during the hello"});
    }
    machine_->feed(std::span(buffer).first(got.bytes));
  }
}

void HelloSession::finish(Expected<cluster::HelloResult> result) {
  readable_.stop();
  deadline_.cancel();
  const Over over = std::exchange(over_, nullptr);
  SIMM_CHECK(over != nullptr);
  over(std::move(result));  // may have destroyed this session
}

ipc::UniqueFd HelloSession::take_socket() {
  return std::move(socket_);
}

}  // namespace simm::control
