// MapMailbox: how a map reaches a data agent. The control thread makes an AgentMap of it.
// The agent uses that from its next turn on, and gives the one before back, to be freed on the
// control thread. Maps that come faster than turns are skipped, except the newest.
// Neither side blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "daemon/base/mailbox.h"
#include "daemon/base/slot_departures.h"
#include "daemon/base/slot_ownership.h"
#include "daemon/base/waiter.h"
#include "daemon/engine/placement.h"
#include "simm/check.h"

namespace simm::cluster {

// A map as one data agent sees it. Immutable.
struct AgentMap {
  std::shared_ptr<const engine::Placement> placement;      // shared by all agents
  base::SlotOwnership ownership;                           // of the agent's own shard
  std::unique_ptr<const base::SlotDepartures> departures;  // of that shard; null: there are none
  std::unique_ptr<const base::SlotDepartures> refills;     // the same (cluster/refill_book.h)
};

// Thread: control_* by the control thread, agent_* by the data agent. Made and destroyed on the
// control thread while the agent does not run.
class MapMailbox {
public:
  // `agent_waiter` may be null where nobody sleeps.
  explicit MapMailbox(base::Waiter* agent_waiter)
      : sent_(kMapsMax), returned_(kMapsMax), agent_waiter_(agent_waiter) {}
  MapMailbox(const MapMailbox&) = delete;
  MapMailbox& operator=(const MapMailbox&) = delete;
  ~MapMailbox() {
    control_collect();
    const AgentMap* map = nullptr;
    while (sent_.try_pop(map)) delete map;
    delete used_;
  }

  // The agent's map from its next turn on.
  void control_send(std::unique_ptr<const AgentMap> map) {
    waiting_ = std::move(map);
    flush();
  }
  // Frees what the agent does not use any more.
  void control_collect() {
    Returned returned;
    while (returned_.try_pop(returned)) {
      delete returned.former;
      control_epoch_ = returned.epoch;
      --under_way_;
    }
    flush();
  }
  // Of the map that the agent is known to use, 0: it has used none.
  [[nodiscard]] base::Epoch control_epoch() const noexcept { return control_epoch_; }

  // Calls use(const AgentMap&) for what has come; how many that were. After the call of the last
  // one no earlier map may be touched.
  template <typename Use>
  int agent_take(Use&& use) noexcept {
    int taken = 0;
    for (const AgentMap* next = nullptr; sent_.try_pop(next); ++taken) {
      use(*next);
      const Returned returned{std::exchange(used_, next), next->ownership.epoch};
      // There are never more under way than it has room for.
      SIMM_CHECK(returned_.try_push(returned));
    }
    return taken;
  }

private:
  static constexpr std::size_t kMapsMax = 4;
  struct Returned {
    const AgentMap* former = nullptr;  // null for the first
    base::Epoch epoch = 0;             // of the one in its place
  };

  void flush() {
    if (waiting_ == nullptr || under_way_ == kMapsMax) return;
    SIMM_CHECK(sent_.try_push(waiting_.get()));
    static_cast<void>(waiting_.release());
    ++under_way_;
    if (agent_waiter_ != nullptr) agent_waiter_->wake();
  }

  base::SpscMailbox<const AgentMap*> sent_;
  base::SpscMailbox<Returned> returned_;
  base::Waiter* const agent_waiter_;

  // The control thread's.
  std::unique_ptr<const AgentMap> waiting_;  // the newest, while there is no room
  std::size_t under_way_ = 0;                // sent, and nothing given back for them yet
  base::Epoch control_epoch_ = 0;

  const AgentMap* used_ = nullptr;  // the agent's
};

}  // namespace simm::cluster
