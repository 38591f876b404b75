// ClusterListener: a port where other daemons connect. It hands on sockets whose hello is over. A
// hello that is under way is bounded in time (kHelloTimeNs) and number: HelloPlaces says who goes
// when somebody new is waiting and there is no place. So silent connections keep nobody else out,
// however many come in a second.
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "daemon/control/deadline.h"
#include "daemon/control/readiness.h"
#include "daemon/control/turns.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/hello_places.h"
#include "daemon/peers/hello_session.h"
#include "daemon/peers/peer_counters.h"

namespace simm::control {

class ClusterListenerEvents {
public:
  virtual ~ClusterListenerEvents() = default;
  // A daemon of this cluster. `result.request.purpose` says what for: make a ClusterChannel of the
  // socket (control), or give it to a data agent (data). It does not block, and nothing watches it.
  virtual void on_accepted(ipc::UniqueFd socket, const cluster::HelloResult& result) = 0;
  // A daemon of this cluster asks for that; false: it is refused, and told so.
  [[nodiscard]] virtual bool has_room_for(const cluster::HelloPeer&, const cluster::HelloRequest&) {
    return true;
  }
};

class ClusterListener {
public:
  ClusterListener(ClusterAccess& access, ClusterListenerEvents& events);
  ClusterListener(const ClusterListener&) = delete;
  ClusterListener& operator=(const ClusterListener&) = delete;

  // `key` is the configuration key that holds `address`, for the words of an error. Once.
  // permission_denied: not loopback, and there is no secret.
  Outcome listen(std::string_view key, std::string_view address);
  // Hangs up on everybody whose hello is not over, and accepts nobody any more.
  void stop();

  // Where it listens, with the port that a port of 0 became. Only after listen().
  [[nodiscard]] const cluster::SocketAddress& address() const { return *address_; }
  [[nodiscard]] std::size_t unauthenticated() const noexcept { return sessions_.size(); }

private:
  void accept_when_possible();
  void accept_one();
  void forget(HelloPlaces::Id id);
  // False: nobody may go yet; it comes back by itself.
  bool make_room();
  void on_hello_over(HelloPlaces::Id id, const cluster::SocketAddress& peer,
                     Expected<cluster::HelloResult> result);

  ClusterAccess& access_;
  ClusterListenerEvents& events_;
  ipc::UniqueFd socket_;
  std::optional<cluster::SocketAddress> address_;
  Readiness readable_;
  Deadline retry_;
  bool waiting_ = false;
  HelloPlaces::Id next_id_ = 1;
  std::map<HelloPlaces::Id, std::unique_ptr<HelloSession>> sessions_;
  HelloPlaces places_;
  Turns turns_;  // of hellos
  ListenerCounters counters_;
};

}  // namespace simm::control
