// RdmaLink: a connected queue pair with the memory of its messages, made on the control thread and
// handed to a data agent, which gives it back when it is over. RdmaLinkMailbox: the way there and
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/base/ids.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/waiter.h"
#include "daemon/transport/frame_seal.h"
#include "daemon/transport/link_loss.h"
#include "daemon/transport/link_owner.h"
#include "daemon/transport/rdma/device/queue_pair.h"
#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/rdma_config.h"
#include "simm/expected.h"

namespace simm::transport {

struct RdmaLink {
  // Destroyed in the opposite order: the queue pair first.
  std::shared_ptr<const void> hold;     // keeps the device open
  std::unique_ptr<std::byte[]> memory;  // kReceives, then kSendBuffers, of kPartBufferBytes each
  std::unique_ptr<Registration> registration;
  std::unique_ptr<QueuePair> queue_pair;
  base::PeerId peer;        // who is at the other end
  std::uint16_t shard = 0;  // of the peer (requester), of ours (responder)
  std::uint16_t rail = 0;   // which of this daemon's ports it goes over
  std::uint64_t link = 0;   // the control thread's own name of it
  LinkOwner owner{};        // responder
  LinkKeys keys{};
  LinkLoss loss = LinkLoss::closed;
  bool was_heard = false;         // of the other end, over this link
  bool takes_long_pings = false;  // the other end (of a server, as the hello says)
  bool takes_traces = false;      // the same

  [[nodiscard]] LinkLost lost() const noexcept { return {link, peer, shard, loss}; }
};

// A link without a name, its queue pair not connected. Errors: of the device. Thread: control.
Expected<std::unique_ptr<RdmaLink>> make_rdma_link(RdmaDevice& device, RdmaPort& port,
                                                   bool is_requester);

// Thread: control_* by the control thread, agent_* by the data agent. Made and destroyed on the
// control thread while the agent does not run.
class RdmaLinkMailbox {
public:
  // `capacity`: messages each way, a power of two, more than the links that can be open.
  explicit RdmaLinkMailbox(std::size_t capacity, base::Waiter* agent_waiter = nullptr)
      : commands_(capacity), ended_(capacity), agent_waiter_(agent_waiter) {}
  RdmaLinkMailbox(const RdmaLinkMailbox&) = delete;
  RdmaLinkMailbox& operator=(const RdmaLinkMailbox&) = delete;
  ~RdmaLinkMailbox() {
    Command command;
    while (commands_.try_pop(command)) delete command.added;
    while (control_take_ended() != nullptr) {
    }
  }

  // False: full, and the link stays the caller's. Its receives are posted by the agent: the other
  // end's first message waits for it, as for a receiver that is slow.
  [[nodiscard]] bool control_add(std::unique_ptr<RdmaLink>& link) noexcept {
    if (!push({link.get(), {}, 0})) return false;
    static_cast<void>(link.release());
    return true;
  }
  // Every link of that peer ends (cause dropped): what was out on it is fenced as collateral.
  [[nodiscard]] bool control_drop_peer(base::PeerId peer) noexcept {
    return push({nullptr, peer, 0});
  }
  // The other end of that link is gone, or wants it to end (cause closed).
  [[nodiscard]] bool control_drop_link(std::uint64_t link) noexcept {
    return push({nullptr, {}, link});
  }
  // A link that is over, its queue pair fenced; null: none.
  [[nodiscard]] std::unique_ptr<RdmaLink> control_take_ended() noexcept {
    RdmaLink* link = nullptr;
    return std::unique_ptr<RdmaLink>(ended_.try_pop(link) ? link : nullptr);
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return commands_.capacity(); }

  // Calls add(std::unique_ptr<RdmaLink>), drop_peer(PeerId) or drop_link(number) for what came
  // first. False: nothing has.
  template <typename Add, typename DropPeer, typename DropLink>
  [[nodiscard]] bool agent_take(Add&& add, DropPeer&& drop_peer, DropLink&& drop_link) noexcept {
    Command command;
    if (!commands_.try_pop(command)) return false;
    if (command.added != nullptr) {
      add(std::unique_ptr<RdmaLink>(command.added));
    } else if (command.link != 0) {
      drop_link(command.link);
    } else {
      drop_peer(command.peer);
    }
    return true;
  }
  // False: full, and the link stays the caller's; try again in a later turn.
  [[nodiscard]] bool agent_ended(std::unique_ptr<RdmaLink>& link) noexcept {
    if (!ended_.try_push(link.get())) return false;
    static_cast<void>(link.release());
    has_news_ = true;
    return true;
  }
  // Something ended since the last call: the control thread's bell has to be rung.
  [[nodiscard]] bool agent_take_news() noexcept { return std::exchange(has_news_, false); }

private:
  struct Command {
    RdmaLink* added = nullptr;  // null: a link to drop, or (0) all of a peer
    base::PeerId peer;
    std::uint64_t link = 0;
  };
  bool push(const Command& command) noexcept {
    if (!commands_.try_push(command)) return false;
    if (agent_waiter_ != nullptr) agent_waiter_->wake();
    return true;
  }

  base::SpscMailbox<Command> commands_;
  base::SpscMailbox<RdmaLink*> ended_;
  base::Waiter* const agent_waiter_;
  bool has_news_ = false;  // the agent's
};

}  // namespace simm::transport
