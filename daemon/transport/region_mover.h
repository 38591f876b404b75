// RegionMover: the Mover of a running daemon. Mapped regions are copied here, under the guard of
// the memory module: small moves at once, large ones around the cache and in steps. The digest is
// taken of the private bytes while they are in cache. Foreign regions are copied by their helper
// process, piece by piece, and a piece is digested, in steps, while the next one is copied;
// stopping such a move has that process killed. Thread: the serving data agent.
#pragma once

#include "daemon/transport/mover.h"

namespace simm::transport {

class RegionMover final : public Mover {
public:
  // A mapped move shorter than memory::kStreamBytesMin is made whole, whatever `bytes_max` says.
  MoveProgress step(Move& move, std::uint64_t bytes_max) noexcept override;
  void begin(Move& move) noexcept override;
  bool stop(Move& move) noexcept override;
  int do_work() noexcept override { return 0; }

private:
  static MoveProgress step_mapped(Move& move, std::uint64_t bytes_max) noexcept;
  static MoveProgress step_foreign(Move& move, std::uint64_t bytes_max) noexcept;
};

}  // namespace simm::transport
