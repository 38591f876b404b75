// TcpEnds: both ends of the TCP transport in one thread, on real sockets, with a relay for each
// link (tcp_relay.h), a clock that stands still, and turns that the test gives.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/manual_clock.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/transport/region_mover.h"
#include "daemon/transport/tcp/tcp_requester.h"
#include "daemon/transport/tcp/tcp_responder.h"
#include "simm/check.h"
#include "tests/support/link_keys.h"
#include "tests/support/tcp_relay.h"

namespace support {

// Every way of doing I/O that this kernel has.
inline std::vector<simm::transport::SocketIoChoice> io_choices() {
  using simm::transport::SocketIoChoice;
  std::vector<SocketIoChoice> choices{SocketIoChoice::epoll};
  if (simm::transport::make_socket_io(SocketIoChoice::uring, nullptr)) {
    choices.push_back(SocketIoChoice::uring);
    choices.push_back(SocketIoChoice::uring_uncopied);
  }
  return choices;
}

class TcpEnds {
public:
  explicit TcpEnds(simm::transport::SocketIoChoice choice, simm::transport::Mover* mover = nullptr,
                   simm::transport::TcpRequesterConfig asking = small_requester(),
                   simm::transport::TcpResponderConfig serving = small_responder())
      : own_roster(asking.links_max),
        requester_rosters(serving.links_max),
        requester_io(simm::transport::make_socket_io(choice, nullptr).value()),
        responder_io(simm::transport::make_socket_io(choice, nullptr).value()),
        requester(asking, clock, *requester_io, mover == nullptr ? own_mover : *mover, own_roster,
                  requester_mail, {counters, "asking"}),
        responder(serving, clock, *responder_io, requester_rosters, responder_mail,
                  {counters, "serving"}) {
    simm::memory::FaultGuard::install();
  }

  static simm::transport::TcpRequesterConfig small_requester() {
    simm::transport::TcpRequesterConfig config;
    config.links_max = 4;
    config.credits = 8;
    return config;
  }
  static simm::transport::TcpResponderConfig small_responder() {
    simm::transport::TcpResponderConfig config;
    config.links_max = 4;
    config.credits = 8;
    return config;
  }

  // A link through a relay. Both ends have it after their next turns. With keys where a test asks
  // for them: most tests speak to one end as a peer that has none.
  TcpRelay& dial(simm::transport::Route route, simm::transport::LinkOwner owner = {}) {
    relays.push_back(std::make_unique<TcpRelay>());
    TcpRelay& relay = *relays.back();
    const std::uint64_t name = relays.size();
    simm::transport::TcpLink asking{relay.take_left(), route.peer, route.shard, name};
    simm::transport::TcpLink serving{relay.take_right(), {77}, route.shard, name, owner};
    asking.takes_traces = takes_traces;
    if (has_keys) {
      asking.keys = requester_keys(name);
      serving.keys = server_keys(name);
    }
    SIMM_CHECK(requester_mail.control_add(asking));
    SIMM_CHECK(responder_mail.control_add(serving));
    return relay;
  }

  int network_turn() {
    int moved = 0;
    for (auto& relay : relays) moved += relay->pump();
    return moved;
  }
  void turn() {
    requester.do_work();
    network_turn();
    responder.do_work();
    network_turn();
  }
  // Until `reached`; whether it was. Turns take no time, and the kernel takes its own: what was
  // sent without copies comes back late on a busy machine. `turns` are not enough before ten
  // seconds have passed.
  template <typename Reached>
  bool turn_until(Reached&& reached, int turns = 5000) {
    return steps_until(reached, turns, [this] { turn(); });
  }
  // The same by turns of one end, while the network moves nothing.
  template <typename Reached>
  bool requester_works_until(Reached&& reached) {
    return steps_until(reached, 100, [this] { requester.do_work(); });
  }
  template <typename Reached>
  bool responder_works_until(Reached&& reached) {
    return steps_until(reached, 100, [this] { responder.do_work(); });
  }

  bool has_keys = false;      // links that are dialled from now on
  bool takes_traces = false;  // the same, as the hello of the server says
  simm::base::ManualClock clock;
  simm::base::CounterSet counters;
  simm::transport::RegionMover own_mover;
  simm::transport::OwnRoster own_roster;
  simm::transport::RequesterRosters requester_rosters;
  simm::transport::TcpLinkMailbox requester_mail{64};
  simm::transport::TcpLinkMailbox responder_mail{64};
  std::unique_ptr<simm::transport::SocketIo> requester_io;
  std::unique_ptr<simm::transport::SocketIo> responder_io;
  simm::transport::TcpRequester requester;
  simm::transport::TcpResponder responder;
  std::vector<std::unique_ptr<TcpRelay>> relays;

private:
  template <typename Reached, typename Step>
  static bool steps_until(Reached&& reached, int steps, Step&& step) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int i = 0; !reached(); ++i) {
      if (i >= steps && std::chrono::steady_clock::now() >= end) return false;
      step();
    }
    return true;
  }
};

}  // namespace support
