// SharedReadRoutes: the placement of shared reads. What several processes of a node read at the
// same time is fetched from another daemon once. Such reads go to a shared-read shard of this
// daemon (one for each data agent), which fetches for all of them. All keys of a slot meet at the
// same shard. What this daemon owns itself is read from its owner as always. Owned by an Engine.
// Thread: its data agent.
#pragma once

#include <cstdint>

#include "daemon/engine/hot_reads.h"
#include "daemon/engine/placement.h"

namespace simm::engine {

// The peer under which an engine reaches the shared-read shards of its own daemon.
inline constexpr base::PeerId kSharedReads{0xffff'ffff};

class SharedReadRoutes final : public Placement {
public:
  // `hot`: only those slots go there; null: all do.
  explicit SharedReadRoutes(const Placement& owners, const HotReads* hot = nullptr) noexcept
      : owners_(&owners), hot_(hot) {}

  void use_placement(const Placement& owners) noexcept { owners_ = &owners; }
  // How many shared-read shards there are; 0: none, every read goes to its owner.
  void use_shards(std::uint16_t shards) noexcept { shards_ = shards; }
  [[nodiscard]] bool enabled() const noexcept { return shards_ > 0; }

  base::Epoch epoch() const noexcept override { return owners_->epoch(); }
  transport::Route route(base::Slot slot) const noexcept override {
    const transport::Route owner = owners_->route(slot);
    if (owner.peer == base::kSelf || (hot_ != nullptr && !hot_->has(slot))) return owner;
    return {kSharedReads, static_cast<std::uint16_t>(slot % shards_)};
  }

private:
  const Placement* owners_;
  const HotReads* const hot_;
  std::uint16_t shards_ = 0;
};

}  // namespace simm::engine
