// TcpResponder: the server's end of the TCP transport: links that the engines of other daemons
// dialled to this shard. When they end, LinkResponder says.
// Thread: the server's data agent; made on the control thread. add_link() besides the mailbox is
// for tests.
#pragma once

#include <utility>

#include "daemon/transport/link_responder.h"
#include "daemon/transport/tcp/link_set.h"
#include "daemon/transport/tcp/responder_link.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "daemon/transport/tcp/tcp_link.h"

namespace simm::transport {

class TcpResponder final : public LinkResponder<LinkSet<ResponderLink>> {
public:
  // All references outlive the responder. `io` and `rosters` may be shared with others of this
  // agent.
  TcpResponder(const TcpResponderConfig& config, const base::Clock& clock, SocketIo& io,
               RequesterRosters& rosters, TcpLinkMailbox& mailbox, const TcpCounters& counters = {})
      : LinkResponder(shared_, links_, rosters),
        shared_{{clock, rosters, config.peer_silence_ns, config.credits, config.weights, this},
                io,
                counters},
        links_(config.links_max, shared_, mailbox) {}
  // Breaks every link and waits until the kernel has let go of all memory; nobody is told. On the
  // agent's thread, or when that has ended.
  ~TcpResponder() override = default;

  void connect(ResponderEvents& events) noexcept override { shared_.events = &events; }
  // Takes the link; without room it is reported as lost (refused).
  void add_link(TcpLink link) {
    shared_.rosters.meet(link.owner);
    links_.add_here(std::move(link));
  }
  [[nodiscard]] bool always_digests() const noexcept override { return true; }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    return !has_orders() && links_.has_none_ready() && shared_.io.prepare_sleep();
  }

private:
  ResponderLinkShared shared_;
  LinkSet<ResponderLink> links_;  // after what it uses
};

}  // namespace simm::transport
