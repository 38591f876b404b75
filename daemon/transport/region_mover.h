// RegionMover: the Mover of a running daemon. Mapped regions are copied here, under the guard of
// the memory module: small moves at once, large ones around the cache and in steps. The digest is
// taken of the private bytes while they are in cache.
// Thread: the serving data agent.
#pragma once

#include "daemon/transport/mover.h"

namespace simm::transport {

class RegionMover final : public Mover {
public:
  // A move shorter than memory::kStreamBytesMin is made whole, whatever `bytes_max` says.
  MoveProgress step(Move& move, std::uint64_t bytes_max) noexcept override;
  bool stop(Move& move) noexcept override;
  int do_work() noexcept override { return 0; }
};

}  // namespace simm::transport
