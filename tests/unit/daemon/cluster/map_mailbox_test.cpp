#include "daemon/cluster/map_mailbox.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace map_mailbox_test {

using namespace simm;
using cluster::AgentMap;
using cluster::MapMailbox;

std::atomic<int> placements_alive{0};

// A placement of which it is known how many there are.
struct CountedPlacement final : engine::Placement {
  explicit CountedPlacement(base::Epoch of) : made_for(of) { ++placements_alive; }
  ~CountedPlacement() override { --placements_alive; }
  base::Epoch epoch() const noexcept override { return made_for; }
  transport::Route route(base::Slot) const noexcept override { return {}; }
  const base::Epoch made_for;
};

std::unique_ptr<const AgentMap> map_of(base::Epoch epoch) {
  auto map = std::make_unique<AgentMap>();
  map->placement = std::make_shared<CountedPlacement>(epoch);
  map->ownership.epoch = epoch;
  return map;
}

std::vector<base::Epoch> take(MapMailbox& mailbox) {
  std::vector<base::Epoch> epochs;
  mailbox.agent_take([&](const AgentMap& map) { epochs.push_back(map.placement->epoch()); });
  return epochs;
}

TEST_CASE("a map lives until the agent has the next one") {
  {
    MapMailbox mailbox(nullptr);
    CHECK(take(mailbox).empty());
    mailbox.control_send(map_of(1));
    CHECK(mailbox.control_epoch() == 0);
    CHECK(take(mailbox) == std::vector<base::Epoch>{1});
    mailbox.control_collect();
    CHECK(mailbox.control_epoch() == 1);
    CHECK(placements_alive == 1);
    mailbox.control_send(map_of(2));
    mailbox.control_collect();
    CHECK(mailbox.control_epoch() == 1);
    CHECK(placements_alive == 2);
    CHECK(take(mailbox) == std::vector<base::Epoch>{2});
    CHECK(placements_alive == 2);  // freed on the control thread, not by the agent
    mailbox.control_collect();
    CHECK(placements_alive == 1);
    CHECK(mailbox.control_epoch() == 2);
    mailbox.control_send(map_of(3));  // never taken
  }
  CHECK(placements_alive == 0);
}

TEST_CASE("an agent without turns misses maps, but never the newest") {
  {
    MapMailbox mailbox(nullptr);
    for (base::Epoch epoch = 1; epoch <= 50; ++epoch) mailbox.control_send(map_of(epoch));
    CHECK(placements_alive <= 5);
    std::vector<base::Epoch> epochs = take(mailbox);
    mailbox.control_collect();
    for (const base::Epoch later : take(mailbox)) epochs.push_back(later);
    mailbox.control_collect();
    CHECK(std::is_sorted(epochs.begin(), epochs.end()));
    CHECK(epochs.back() == 50);
    CHECK(mailbox.control_epoch() == 50);
    CHECK(placements_alive == 1);
  }
  CHECK(placements_alive == 0);
}

TEST_CASE("maps pass between two threads, in order, and none is lost or freed too early") {
  constexpr base::Epoch kLast = 2000;
  {
    MapMailbox mailbox(nullptr);
    std::atomic<bool> has_last{false};
    bool in_order = true;
    std::thread agent([&] {
      base::Epoch newest = 0;
      const engine::Placement* used = nullptr;
      while (newest != kLast) {
        mailbox.agent_take([&](const AgentMap& map) {
          in_order = in_order && map.ownership.epoch > newest;
          newest = map.ownership.epoch;
          used = map.placement.get();
        });
        // The one in use is not freed under the agent.
        if (used != nullptr && used->epoch() != newest) in_order = false;
      }
      has_last = true;
    });
    for (base::Epoch epoch = 1; epoch <= kLast; ++epoch) {
      mailbox.control_send(map_of(epoch));
      mailbox.control_collect();
    }
    while (!has_last) mailbox.control_collect();
    agent.join();
    CHECK(in_order);
    mailbox.control_collect();
    CHECK(mailbox.control_epoch() == kLast);
    CHECK(placements_alive == 1);
  }
  CHECK(placements_alive == 0);
}

}  // namespace map_mailbox_test
