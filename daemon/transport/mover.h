// Mover: carries out Moves. Seam: the real one copies from and to mapped regions under the guard
// of the memory module and hands foreign regions to their helper process; tests inject faults.
// Thread: the serving data agent; one Mover for each.
#pragma once

#include <cstdint>

#include "daemon/transport/move.h"

namespace simm::transport {

enum class MoveProgress : std::uint8_t {
  done,     // ended: move.status says how, nothing is under way
  running,  // the step is used up, call again
  waiting,  // made elsewhere and not ready: call again in a later turn
};

class Mover {
public:
  virtual ~Mover() = default;
  // Goes on with the move for at most `bytes_max` bytes (at least 1). A fault of the region ends it
  // with Status::transfer_failed. The digest is taken of the private side, never of client memory.
  virtual MoveProgress step(Move& move, std::uint64_t bytes_max) noexcept = 0;
  // A move whose turn has not come yet, of the same request as one that waits: starts what is made
  // elsewhere, so that those who make it do not run out of work. Nothing else.
  virtual void begin(Move&) noexcept {}
  // Ends the move wherever it is. False: something is still under way, call again in a later turn.
  virtual bool stop(Move& move) noexcept = 0;
  // A turn of what is made elsewhere.
  virtual int do_work() noexcept = 0;
};

}  // namespace simm::transport
