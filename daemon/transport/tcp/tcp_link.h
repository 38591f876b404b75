// TcpLink: a connection that was dialled or accepted, and proved itself, on the control thread, and
// is handed to a data agent. TcpLinkMailbox: the way there and back. The agent owns the socket from
// then on; when the connection is lost it says so, once for each link, and the control thread dials
// again at its own pace.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "daemon/base/ids.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/waiter.h"
#include "daemon/transport/link_loss.h"
#include "daemon/transport/link_owner.h"
#include "ipc/fd.h"

namespace simm::transport {

struct TcpLink {
  ipc::UniqueFd socket;     // connected stream socket
  base::PeerId peer;        // who is at the other end
  std::uint16_t shard = 0;  // of the peer (requester), of ours (responder)
  std::uint64_t link = 0;   // the control thread's own name of this connection
  LinkOwner owner{};        // responder
};

// Thread: control_* by the control thread, agent_* by the data agent. Made and destroyed on the
// control thread while the agent does not run.
class TcpLinkMailbox {
public:
  // `capacity`: messages each way, a power of two, more than the links that can be open. Wakers may
  // be null where nobody sleeps; control_bell is rung by the user (its loop is not a Waiter).
  explicit TcpLinkMailbox(std::size_t capacity, base::Waiter* agent_waiter = nullptr)
      : commands_(capacity), lost_(capacity), agent_waiter_(agent_waiter) {}
  TcpLinkMailbox(const TcpLinkMailbox&) = delete;
  TcpLinkMailbox& operator=(const TcpLinkMailbox&) = delete;
  ~TcpLinkMailbox() {
    Command command;
    while (commands_.try_pop(command)) {
      if (command.kind == Kind::add) ::close(command.socket);
    }
  }

  // False: full, and the link stays the caller's.
  [[nodiscard]] bool control_add(TcpLink& link) noexcept {
    if (!push({Kind::add, link.socket.get(), link.peer, link.shard, link.link, link.owner})) {
      return false;
    }
    static_cast<void>(link.socket.release());
    return true;
  }
  // Every link of that peer ends (cause dropped): what was out on it is fenced as collateral.
  [[nodiscard]] bool control_drop_peer(base::PeerId peer) noexcept {
    return push({Kind::drop_peer, -1, peer, 0, 0, {}});
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return commands_.capacity(); }
  [[nodiscard]] bool control_take_lost(LinkLost& lost) noexcept { return lost_.try_pop(lost); }

  // Calls add(TcpLink) and drop(PeerId) for what has come; how many that were.
  template <typename Add, typename Drop>
  int agent_take(Add&& add, Drop&& drop) noexcept {
    Command command;
    int taken = 0;
    for (; commands_.try_pop(command); ++taken) {
      if (command.kind == Kind::drop_peer) {
        drop(command.peer);
      } else {
        add(TcpLink{ipc::UniqueFd(command.socket), command.peer, command.shard, command.link,
                    command.owner});
      }
    }
    return taken;
  }
  // False: full, try again in a later turn.
  [[nodiscard]] bool agent_lost(const LinkLost& lost) noexcept {
    if (!lost_.try_push(lost)) return false;
    has_news_ = true;
    return true;
  }
  // Something was lost since the last call: the control thread's bell has to be rung.
  [[nodiscard]] bool agent_take_news() noexcept { return std::exchange(has_news_, false); }

private:
  enum class Kind : std::uint8_t { add, drop_peer };
  struct Command {
    Kind kind = Kind::add;
    int socket = -1;
    base::PeerId peer;
    std::uint16_t shard = 0;
    std::uint64_t link = 0;
    LinkOwner owner;
  };
  bool push(const Command& command) noexcept {
    if (!commands_.try_push(command)) return false;
    if (agent_waiter_ != nullptr) agent_waiter_->wake();
    return true;
  }

  base::SpscMailbox<Command> commands_;
  base::SpscMailbox<LinkLost> lost_;
  base::Waiter* const agent_waiter_;
  bool has_news_ = false;  // the agent's
};

}  // namespace simm::transport
