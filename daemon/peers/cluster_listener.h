// ClusterListener: a port where other daemons connect. It hands on sockets whose hello is over; who
// has not said one is bounded in number (kHellosMax) and time (kHelloTimeNs). When the table is
// full and somebody new is waiting, the oldest one goes of the source address that has most: at
// once where that source has more than its part (kHellosOfSource), else if it had its chance
// (kHelloChanceNs). So silent connections keep nobody else out, however many come in a second; a
// burst of honest daemons queues in the kernel instead. Whoever has proved itself is not among
// those that go before kHelloTimeNs: a thousand daemons that come at once need more than their
// chance, and would throw each other out for the proof of their paths.
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "daemon/control/deadline.h"
#include "daemon/control/readiness.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/hello_session.h"
#include "daemon/peers/peer_counters.h"

namespace simm::control {

// Of kHellosMax, of one source: an IPv4 address, or an IPv6 network of 64 bits.
inline constexpr std::size_t kHellosOfSource = 64;
// How long an unauthenticated connection is safe from newer ones: many round trips of a hello.
inline constexpr base::TimeNs kHelloChanceNs = 25 * base::kNsPerMs;

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
  struct Hello {
    std::unique_ptr<HelloSession> session;
    std::uint64_t source = 0;
  };
  using Hellos = std::map<std::uint64_t, Hello>;

  // The oldest one of the source that has most, of those that may go. End: nobody may.
  [[nodiscard]] Hellos::iterator first_to_go();
  [[nodiscard]] bool may_go(const HelloSession& session) const;
  void forget(Hellos::iterator hello);
  // False: nobody may go yet; it comes back by itself.
  bool make_room();
  void on_hello_over(std::uint64_t id, const cluster::SocketAddress& peer,
                     Expected<cluster::HelloResult> result);

  ClusterAccess& access_;
  ClusterListenerEvents& events_;
  ipc::UniqueFd socket_;
  std::optional<cluster::SocketAddress> address_;
  Readiness readable_;
  Deadline retry_;
  bool waiting_ = false;
  std::uint64_t next_id_ = 1;
  // By number, so the first one is the oldest.
  Hellos sessions_;
  std::map<std::uint64_t, std::size_t> of_source_;  // how many each one has
  ListenerCounters counters_;
};

}  // namespace simm::control
