// HelloSession: a socket whose hello is under way, at either end, with its deadline. It ends once,
// with a result or an error; what it said last (a verdict, a refusal) has been sent by then.
// Owned by a ClusterListener or ClusterDialer, which may destroy it in `over` and at any other
// time: then nothing is called any more. Thread: control.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/cluster/hello/hello_machine.h"
#include "daemon/control/deadline.h"
#include "daemon/control/readiness.h"
#include "daemon/control/turns.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/hello_places.h"
#include "daemon/peers/tcp_socket.h"

namespace simm::control {

class HelloSession {
public:
  using Over = std::function<void(Expected<cluster::HelloResult>)>;

  HelloSession(ClusterAccess& access, ipc::UniqueFd socket,
               std::unique_ptr<cluster::HelloMachine> machine, Over over);
  HelloSession(const HelloSession&) = delete;
  HelloSession& operator=(const HelloSession&) = delete;

  // At the end that accepts, before start(): its work is done in these turns, and `further` is
  // called when the hello has come further. That must not destroy this session.
  void attend(Turns& turns, std::function<void(HelloStage)> further) {
    turns_ = &turns;
    further_ = std::move(further);
  }
  // `connecting`: the socket is not connected yet. `over` is never called in here.
  void start(bool connecting, base::TimeNs time_ns);

  // In `over` after an error: what the peer claimed, for the end of a text about it; may be empty.
  [[nodiscard]] std::string peer_claim() const { return machine_->peer_claim(); }
  // In `over` after a result: the bare socket, which nothing here watches any more.
  ipc::UniqueFd take_socket();

private:
  void on_connected();
  void go_on();
  void progress();
  // False when the connection is broken (and over).
  bool flush();
  void note_stage();
  void expire_after(base::TimeNs time_ns);
  void finish(Expected<cluster::HelloResult> result);

  ClusterAccess& access_;
  ipc::UniqueFd socket_;
  std::unique_ptr<cluster::HelloMachine> machine_;
  Readiness readable_;  // after the socket: stops before it closes
  Deadline deadline_;
  Over over_;
  Turns* turns_ = nullptr;  // null: it goes on at once
  std::function<void(HelloStage)> further_;
  HelloStage stage_ = HelloStage::silent;
  base::TimeNs path_time_ns_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool is_on_path_ = false;  // the proof of the path has begun
};

}  // namespace simm::control
