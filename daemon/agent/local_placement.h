// LocalPlacement: the placement of a daemon alone: every slot is its own, spread over its shards.
// The map never changes, so its epoch is 1 for ever. Thread: any (immutable).
#pragma once

#include <cstdint>

#include "daemon/engine/placement.h"

namespace simm {

class LocalPlacement final : public engine::Placement {
public:
  static constexpr base::Epoch kEpoch = 1;

  explicit LocalPlacement(std::uint16_t shards) noexcept : shards_(shards) {}

  base::Epoch epoch() const noexcept override { return kEpoch; }
  transport::Route route(base::Slot slot) const noexcept override {
    return {base::kSelf, static_cast<std::uint16_t>(shards_ == 1 ? 0 : slot % shards_)};
  }

private:
  const std::uint16_t shards_;
};

}  // namespace simm
