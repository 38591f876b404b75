// TcpResponder: the server's end of the TCP transport: links that the engines of other daemons
// dialled to this shard. An asker that is silent for peer_silence_ns while requests of it are
// served is dead: its link ends, and what it asked for is aborted.
// Thread: the server's data agent; made on the control thread. add_link() besides the mailbox is
// for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/transport/tcp/lost_links.h"
#include "daemon/transport/tcp/responder_link.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "daemon/transport/tcp/tcp_link.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class TcpResponder final : public Responder {
public:
  // All references outlive the responder. `io` may be shared with others of this agent.
  TcpResponder(const TcpResponderConfig& config, const base::Clock& clock, SocketIo& io,
               TcpLinkMailbox& mailbox);
  // Breaks every link and waits until the kernel has let go of all memory; nobody is told. On the
  // agent's thread, or when that has ended.
  ~TcpResponder() override;
  TcpResponder(const TcpResponder&) = delete;
  TcpResponder& operator=(const TcpResponder&) = delete;

  // Who serves; before the first turn.
  void connect(ResponderEvents& events) noexcept { shared_.events = &events; }
  // Takes the link; without room it is reported as lost (refused).
  void add_link(TcpLink link) noexcept;

  void pull(Incoming& incoming, std::uint16_t page, std::span<std::byte> extent) noexcept override;
  void push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override;
  void reply(Incoming& incoming, std::span<const PageReply> pages) noexcept override;
  int do_work() noexcept override;
  // The second half of a turn alone: for an agent that runs it after the server's own turn, so that
  // what the server started or answered leaves in the same pass.
  int run_moves() noexcept;

  // When do_work() has to run even if nothing arrives.
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;
  // True: nothing to do before the waiter, or that time, says so.
  [[nodiscard]] bool prepare_sleep() noexcept {
    return !has_orders_ && ready_.empty() && shared_.io.prepare_sleep();
  }

private:
  int take_mail() noexcept;
  int run_links(base::TimeNs now_ns) noexcept;
  int finish_closing() noexcept;
  void drop_peer(base::PeerId peer) noexcept;

  const TcpResponderConfig config_;
  ResponderLinkShared shared_;
  TcpLinkMailbox& mailbox_;
  IoReadyList ready_;
  std::vector<std::unique_ptr<ResponderLink>> links_;
  std::uint32_t links_used_ = 0;  // links_[0 .. links_used_) may be in use
  LostLinks lost_;
  base::TimeNs turn_ns_ = 0;  // when the last turn began
  bool has_orders_ = false;   // of the server, since the last turn
};

}  // namespace simm::transport
