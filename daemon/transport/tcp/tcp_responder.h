// TcpResponder: the server's end of the TCP transport: links that the engines of other daemons
// dialled to this shard. A requester that is silent for peer_silence_ns while requests of it are
// served is dead: its link ends, and what it asked for is aborted.
// Thread: the server's data agent; made on the control thread. add_link() besides the mailbox is
// for tests.
#pragma once

#include <cstdint>
#include <utility>

#include "daemon/transport/requester_rosters.h"
#include "daemon/transport/tcp/link_set.h"
#include "daemon/transport/tcp/responder_link.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "daemon/transport/tcp/tcp_link.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class TcpResponder final : public Responder, private RosterListener {
public:
  // All references outlive the responder. `io` and `rosters` may be shared with others of this
  // agent.
  TcpResponder(const TcpResponderConfig& config, const base::Clock& clock, SocketIo& io,
               RequesterRosters& rosters, TcpLinkMailbox& mailbox,
               const TcpCounters& counters = {});
  // Breaks every link and waits until the kernel has let go of all memory; nobody is told. On the
  // agent's thread, or when that has ended.
  ~TcpResponder() override = default;
  TcpResponder(const TcpResponder&) = delete;
  TcpResponder& operator=(const TcpResponder&) = delete;

  void connect(ResponderEvents& events) noexcept override { shared_.events = &events; }
  // Takes the link; without room it is reported as lost (refused).
  void add_link(TcpLink link) {
    shared_.rosters.meet(link.owner);
    links_.add_here(std::move(link));
  }
  void drop_all() noexcept override { links_.drop_all(); }

  void pull(Incoming& incoming, std::uint16_t page, std::span<std::byte> extent) noexcept override;
  void push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override;
  [[nodiscard]] bool always_digests() const noexcept override { return true; }
  void reply(Incoming& incoming, std::span<const PageReply> pages) noexcept override;
  int do_work() noexcept override;
  int run_moves() noexcept override;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override {
    return !has_orders_ && links_.has_none_ready() && shared_.io.prepare_sleep();
  }

private:
  void on_roster(const LinkRoster& roster, bool remembers_all) noexcept override;
  void on_new_life(std::uint32_t daemon) noexcept override;

  const TcpResponderConfig config_;
  ResponderLinkShared shared_;
  LinkSet<ResponderLink> links_;  // after what it uses
  base::TimeNs turn_ns_ = 0;      // when the last turn began
  bool has_orders_ = false;       // of the server, since the last turn
};

}  // namespace simm::transport
