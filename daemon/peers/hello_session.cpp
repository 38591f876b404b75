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
  // The dialer gives up first, so that its error names the cause.
  path_time_ns_ = connecting ? kPathTimeNs : kPathTimeNs + kHelloTimeNs;
  if (!readable_.watch(socket_.get())) {
    return deadline_.after(0, [this] {
      finish(Error{Status::timeout, "the socket can not be watched"});
    });
  }
  expire_after(time_ns);
  // Also a dialer that is connected waits first: nothing is called from in here.
  if (connecting) {
    readable_.when_writable([this] { on_connected(); });
  } else {
    readable_.when_writable([this] { go_on(); });
  }
}

void HelloSession::expire_after(base::TimeNs time_ns) {
  deadline_.after(time_ns, [this] {
    const char* const what =
        is_on_path_ ? "short packets arrive and long ones do not: give this interface the MTU of "
                      "the whole path, let the path's ICMP messages through, or set "
                      "net.ipv4.tcp_mtu_probing to 1 at both ends"
                    : "the hello was not over in time";
    finish(Error{Status::timeout, what});
  });
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

void HelloSession::go_on() {
  if (turns_ == nullptr) return progress();
  // Else a thousand that come at one moment would all be through at one moment, and too late.
  const bool is_further = stage_ != HelloStage::silent;
  turns_->take(
      alive_, [this] { progress(); }, is_further);
}

void HelloSession::note_stage() {
  const HelloStage now = machine_->is_proving_path()   ? HelloStage::proved
                         : machine_->has_heard_hello() ? HelloStage::greeted
                                                       : HelloStage::silent;
  if (now <= stage_) return;
  stage_ = now;
  if (further_ != nullptr) further_(now);
}

void HelloSession::progress() {
  using State = cluster::HelloMachine::State;
  // Bounded: a hello has six messages of fixed size, and every turn moves bytes of them.
  for (;;) {
    if (machine_->is_proving_path() && !std::exchange(is_on_path_, true)) {
      expire_after(path_time_ns_);
    }
    note_stage();
    if (!flush()) return;
    if (!machine_->outgoing().empty()) return readable_.when_writable([this] { go_on(); });
    if (machine_->state() == State::done) return finish(machine_->result());
    if (machine_->state() == State::failed) {
      return finish(Error{cluster::refusal_status(machine_->refusal()), machine_->explanation()});
    }
    std::array<std::byte, 4096> buffer;
    // Never more than the hello wants: what follows belongs to the socket's next owner.
    const std::size_t want = std::min(buffer.size(), machine_->wanted());
    const TcpMoved got = receive_tcp(socket_.get(), std::span(buffer).first(want));
    if (got.result == TcpResult::would_block) {
      return readable_.when_readable([this] { go_on(); });
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
