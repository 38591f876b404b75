// RegionMover: the Mover of a running daemon. Mapped regions are copied here, block by block; the
// digest is taken of each private block while it is in cache.
// Thread: the serving data agent.
#pragma once

#include "daemon/transport/mover.h"

namespace simm::transport {

class RegionMover final : public Mover {
public:
  MoveProgress step(Move& move, std::uint64_t bytes_max) noexcept override;
  bool stop(Move& move) noexcept override;
  int do_work() noexcept override { return 0; }
};

}  // namespace simm::transport
