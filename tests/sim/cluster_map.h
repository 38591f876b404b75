// ClusterMap: the placement of a simulated cluster. With each epoch a quarter of the slots moves on
// to the next shard; they never come back to a shard that had them, because a store does not yet
// drop what it no longer owns. Immutable.
#pragma once

#include "daemon/engine/placement.h"

namespace simm::sim {

class ClusterMap final : public engine::Placement {
public:
  ClusterMap(base::Epoch epoch, std::uint32_t servers, std::uint16_t shards)
      : epoch_(epoch), servers_(servers), shards_(shards) {}

  [[nodiscard]] base::Epoch epoch() const noexcept override { return epoch_; }
  [[nodiscard]] transport::Route route(base::Slot slot) const noexcept override {
    const std::uint64_t owners = std::uint64_t{servers_} * shards_;
    const std::uint64_t moved = slot % 4 == 0 ? epoch_ - 1 : 0;
    const auto owner = static_cast<std::uint32_t>((slot / 4 + moved) % owners);
    return {base::PeerId{owner / shards_ + 1}, static_cast<std::uint16_t>(owner % shards_)};
  }
  // Epochs start at 1; so many there may be.
  [[nodiscard]] static base::Epoch last_epoch(std::uint32_t servers, std::uint16_t shards) {
    return std::uint64_t{servers} * shards;
  }

private:
  base::Epoch epoch_;
  std::uint32_t servers_;
  std::uint16_t shards_;
};

}  // namespace simm::sim
