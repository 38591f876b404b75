// ClusterMap: the placement of a simulated cluster. With each epoch a quarter of the slots moves on
// to the next shard, with every second one another quarter does; after some epochs they come back
// to shards that had them before. Immutable.
#pragma once

#include "daemon/base/slot_ownership.h"
#include "daemon/engine/placement.h"

namespace simm::sim {

class ClusterMap final : public engine::Placement {
public:
  ClusterMap(base::Epoch epoch, std::uint32_t servers, std::uint16_t shards)
      : epoch_(epoch), servers_(servers), shards_(shards) {}

  [[nodiscard]] base::Epoch epoch() const noexcept override { return epoch_; }
  [[nodiscard]] transport::Route route(base::Slot slot) const noexcept override {
    const std::uint64_t owners = std::uint64_t{servers_} * shards_;
    const auto owner = static_cast<std::uint32_t>((slot / 4 + moved(slot)) % owners);
    return {base::PeerId{owner / shards_ + 1}, static_cast<std::uint16_t>(owner % shards_)};
  }
  // Epochs start at 1; so many there are: each moving slot goes around at least twice.
  [[nodiscard]] static base::Epoch last_epoch(std::uint32_t servers, std::uint16_t shards) {
    return std::uint64_t{servers} * shards * 4;
  }
  // What this map gives to a shard, and since when.
  void own(transport::Route shard, base::SlotOwnership& slots) const {
    slots.epoch = epoch_;
    for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
      const auto s = static_cast<base::Slot>(slot);
      const bool stays = servers_ * shards_ == 1 || slot % 4 > 1;
      const base::Epoch since = stays ? 1 : slot % 4 == 0 ? epoch_ : 2 * moved(s) + 1;
      slots.since[slot] = route(s) == shard ? since : 0;
    }
  }

private:
  // How often the slot has moved up to this map.
  [[nodiscard]] std::uint64_t moved(base::Slot slot) const noexcept {
    return slot % 4 == 0 ? epoch_ - 1 : slot % 4 == 1 ? (epoch_ - 1) / 2 : 0;
  }

  base::Epoch epoch_;
  std::uint32_t servers_;
  std::uint16_t shards_;
};

}  // namespace simm::sim
