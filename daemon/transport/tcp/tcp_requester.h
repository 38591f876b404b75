// TcpRequester: the engine's end of the TCP transport: links to the shards of other daemons. A
// route may have several; a request lives on the one with the fewest at that moment, and a link is
// what reset() breaks.
//
// A peer that is silent on all links for peer_detection_ns while requests are out is dead: all its
// links end, and post() answers unreachable at once until the control thread brings a new one. That
// is the circuit breaker: one detection time is paid, not one for each call. A link that is silent
// beside others that are heard ends alone, later.
// Thread: the engine's data agent; made on the control thread. add_link() besides the mailbox is
// for tests and for agents that dial themselves.
#pragma once

#include <cstdint>
#include <utility>

#include "daemon/transport/tcp/link_set.h"
#include "daemon/transport/tcp/requester_link.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "daemon/transport/tcp/tcp_link.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class TcpRequester final : public Requester {
public:
  // All references outlive the requester. `io` and `links` may be shared with others of this agent.
  TcpRequester(const TcpRequesterConfig& config, const base::Clock& clock, SocketIo& io,
               Mover& mover, OwnRoster& links, TcpLinkMailbox& mailbox,
               const TcpCounters& counters = {});
  // Breaks every link and waits until the kernel has let go of all memory; nobody is told. On the
  // agent's thread, or when that has ended.
  ~TcpRequester() override = default;
  TcpRequester(const TcpRequester&) = delete;
  TcpRequester& operator=(const TcpRequester&) = delete;

  void connect(RequesterEvents& events, RegionFaults* faults) noexcept override;
  // Takes the link; without room, or with wire::kRosterLinksMax on its route, it is reported as
  // lost (refused).
  void add_link(TcpLink link) { links_.add_here(std::move(link)); }

  // Those that the control thread has handed over can be asked from here on; do_work() takes them
  // as well. How many messages that were.
  int take_links() noexcept {
    return links_.take_mail([](const TcpLink&) {});
  }

  Status post(Route route, RequestToken token, const Request& request) noexcept override;
  void cancel(Route route, RequestToken token) noexcept override;
  void abandon(Route route, RequestToken token) noexcept override;
  void reset(Route route, RequestToken culprit) noexcept override;
  [[nodiscard]] std::uint64_t moved(Route route) const noexcept override;
  int do_work() noexcept override;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override {
    return !has_posted_ && links_.has_none_ready() && shared_.io.prepare_sleep();
  }
  // Requests that can be out on one link.
  [[nodiscard]] std::uint32_t credits() const noexcept { return config_.credits; }

private:
  RequesterLink* least_loaded(Route route, std::uint32_t keep, bool& is_reachable) noexcept;
  void check_lives(base::TimeNs now_ns) noexcept;
  void probe_others(base::PeerId peer, base::TimeNs now_ns) noexcept;
  void end_silent(RequesterLink& silent, base::TimeNs now_ns) noexcept;

  const TcpRequesterConfig config_;
  RequesterLinkShared shared_;
  LinkSet<RequesterLink> links_;  // after what it uses
  base::TimeNs turn_ns_ = 0;      // when the last turn began
  bool has_posted_ = false;       // since the last turn
};

}  // namespace simm::transport
