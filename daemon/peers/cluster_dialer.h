// ClusterDialer: reaches one peer and says hello, again and again with back-off until it works;
// then its owner has the socket, and calls redial() when that is lost. Of several addresses each
// attempt takes the next one. All of them have had their turn before the dialer waits, so an
// address that is silent costs kHelloTimeNs and no back-off. Names are looked up anew for each
// attempt, by a thread of Asio's own. Owned by whoever wants the connection; may be destroyed at
// any time outside its callbacks. Thread: control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/cluster/backoff.h"
#include "daemon/control/deadline.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/hello_session.h"
#include "daemon/peers/peer_counters.h"

namespace simm::control {

struct DialTarget {
  std::string key;  // where the address comes from, for the words of an error
  // "host:port", numeric or a name; or several, see text_list.h: each attempt takes the next one.
  std::string address;
  cluster::HelloRequest request;
  // Between two attempts, while the peer can not be reached at all.
  base::TimeNs away_wait_ns = cluster::Backoff::kLongestNs;
};

class ClusterDialer;

class ClusterDialerEvents {
public:
  virtual ~ClusterDialerEvents() = default;
  // The hello is over: make a ClusterChannel of the socket (control), or give it to a data agent
  // (data). It does not block, and nothing watches it.
  virtual void on_dialled(ClusterDialer& dialer, ipc::UniqueFd socket,
                          const cluster::HelloResult& result) = 0;
  // An attempt failed; the next one comes by itself, unless stop() is called. Also for causes that
  // only a person can remove: that person may be at it.
  virtual void on_dial_failed(ClusterDialer& dialer, const Error& error) = 0;
};

class ClusterDialer {
public:
  ClusterDialer(ClusterAccess& access, DialTarget target, ClusterDialerEvents& events);
  ~ClusterDialer();
  ClusterDialer(const ClusterDialer&) = delete;
  ClusterDialer& operator=(const ClusterDialer&) = delete;

  // Dials now; a running attempt goes on.
  void start();
  // The connection that on_dialled() gave is lost: dials again, after a wait. One that was lost
  // soon is a failed attempt: the addresses that have not had their turn yet come without a wait.
  // The peer may have said for how long, at least, there is no use in dialling; the wait is up to
  // twice as long. `herd`: so many daemons have lost the same peer at this moment, and are not to
  // come back at one moment.
  void redial(base::TimeNs at_least_ns = 0, std::size_t herd = 0);
  // The peer can be reached again: dials now, if this dialer waits because it could not reach it.
  // One that the peer refuses goes on waiting. Returns whether the last attempt did not reach it.
  bool hurry();
  // Gives up whatever is under way. start() begins anew.
  void stop();

  [[nodiscard]] const DialTarget& target() const noexcept { return target_; }
  // The one of the target's addresses that the last attempt took.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

private:
  enum class State : std::uint8_t { idle, waiting, dialling, connected };
  using Resolver = boost::asio::ip::tcp::resolver;

  void dial();
  void dial_soon();
  void look_up(const cluster::HostAndPort& where);
  void on_looked_up(const Resolver::results_type& results);
  void connect(const cluster::SocketAddress& address);
  void on_hello_over(Expected<cluster::HelloResult> result);
  void fail(Error error);
  void wait(base::TimeNs wait_ns);

  ClusterAccess& access_;
  const DialTarget target_;
  const std::vector<std::string> addresses_;
  std::string address_;
  ClusterDialerEvents& events_;
  State state_ = State::idle;
  bool is_away_ = false;  // the last attempt did not reach the peer
  std::uint64_t attempts_ = 0;
  std::size_t untried_ = 0;  // addresses, before the next wait
  cluster::Backoff backoff_;
  Deadline timer_;
  Resolver resolver_;
  std::shared_ptr<bool> lookup_alive_;
  std::unique_ptr<HelloSession> session_;
  DialerCounters counters_;
};

}  // namespace simm::control
