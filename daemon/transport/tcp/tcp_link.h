// TcpLink: a connection that was dialled or accepted, and proved itself, on the control thread, and
// is handed to a data agent. TcpLinkMailbox: the way there and back. The agent owns the socket from
// then on; when the connection is lost it says so, once for each link, and the control thread dials
// again at its own pace.
//
// The agent allocates nothing for a link: whoever opens one more than were ever open makes a place
// for it here, and the place travels with the link. So memory is taken for links that there are.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "daemon/base/ids.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/waiter.h"
#include "daemon/transport/frame_seal.h"
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
  LinkKeys keys{};
  bool takes_moved = false;   // requester: the other end knows puts that are moved
  bool takes_traces = false;  // the same of the trace that a request is part of
  bool takes_tells = false;   // the same of what is told of objects that move
};

// How the control thread makes what a link lives in at the agent, and how many there may be.
struct LinkPlaces {
  std::uint32_t max = ~std::uint32_t{0};
  void* (*make)(void* shared) = nullptr;  // null: the agent has places of its own
  void (*destroy)(void* place) = nullptr;
  void* shared = nullptr;  // of all links of that end; alive while links are added
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
      if (command.place != nullptr) places_.destroy(command.place);
    }
    if (spare_ != nullptr) places_.destroy(spare_);
  }

  // Before the first link.
  void control_use(const LinkPlaces& places) noexcept { places_ = places; }
  // False: full, and the link stays the caller's.
  [[nodiscard]] bool control_add(TcpLink& link) {
    const bool needs_place = places_.make != nullptr && made_ < places_.max && open_ >= made_;
    if (needs_place && spare_ == nullptr) spare_ = places_.make(places_.shared);
    void* const place = needs_place ? spare_ : nullptr;
    if (!push({Kind::add, link.socket.get(), link.peer, link.shard, link.link, link.owner,
               link.keys, place, link.takes_moved, link.takes_traces, link.takes_tells})) {
      return false;
    }
    if (needs_place) {
      spare_ = nullptr;
      ++made_;
    }
    ++open_;
    static_cast<void>(link.socket.release());
    return true;
  }
  // Every link of that peer ends (cause dropped): what was out on it is fenced as collateral.
  [[nodiscard]] bool control_drop_peer(base::PeerId peer) noexcept {
    return push({Kind::drop_peer, -1, peer, 0, 0, {}, {}, nullptr});
  }
  // The same of one link, which others need the place of.
  [[nodiscard]] bool control_drop_link(std::uint64_t link) noexcept {
    return push({Kind::drop_link, -1, {}, 0, link, {}, {}, nullptr});
  }
  // How many links there may be at one time.
  [[nodiscard]] std::size_t control_room() const noexcept { return places_.max; }
  [[nodiscard]] std::size_t capacity() const noexcept { return commands_.capacity(); }
  [[nodiscard]] bool control_take_lost(LinkLost& lost) noexcept {
    if (!lost_.try_pop(lost)) return false;
    if (open_ > 0) --open_;
    return true;
  }

  // Calls add(TcpLink), drop_peer(PeerId) and drop_link(number) for what has come; how many that
  // were. Before add(), grow(place) for a link that brings its place.
  template <typename Add, typename DropPeer, typename DropLink, typename Grow>
  int agent_take(Add&& add, DropPeer&& drop_peer, DropLink&& drop_link, Grow&& grow) noexcept {
    Command command;
    int taken = 0;
    for (; commands_.try_pop(command); ++taken) {
      if (command.kind == Kind::drop_peer) {
        drop_peer(command.peer);
      } else if (command.kind == Kind::drop_link) {
        drop_link(command.link);
      } else {
        if (command.place != nullptr) grow(command.place);
        add(TcpLink{ipc::UniqueFd(command.socket), command.peer, command.shard, command.link,
                    command.owner, command.keys, command.takes_moved, command.takes_traces,
                    command.takes_tells});
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
  enum class Kind : std::uint8_t { add, drop_peer, drop_link };
  struct Command {
    Kind kind = Kind::add;
    int socket = -1;
    base::PeerId peer;
    std::uint16_t shard = 0;
    std::uint64_t link = 0;
    LinkOwner owner;
    LinkKeys keys;
    void* place = nullptr;  // of LinkPlaces
    bool takes_moved = false;
    bool takes_traces = false;
    bool takes_tells = false;
  };
  bool push(const Command& command) noexcept {
    if (!commands_.try_push(command)) return false;
    if (agent_waiter_ != nullptr) agent_waiter_->wake();
    return true;
  }

  base::SpscMailbox<Command> commands_;
  base::SpscMailbox<LinkLost> lost_;
  base::Waiter* const agent_waiter_;
  LinkPlaces places_;
  std::uint32_t made_ = 0;  // places that the agent has, or is about to get
  std::uint32_t open_ = 0;  // links that were added, and not lost
  void* spare_ = nullptr;   // a place whose link found the mailbox full
  bool has_news_ = false;   // the agent's
};

}  // namespace simm::transport
