// Move: one transfer of bytes between a client's slice and private memory of the server, made in
// bounded steps. Plain value; whoever drives the payload keeps it until it is done.
// Thread: the serving data agent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/memory/helper/object_part.h"
#include "daemon/memory/region.h"
#include "simm/status.h"

namespace simm::base {
class PayloadDigest;
}

namespace simm::transport {

enum class MoveDirection : std::uint8_t {
  in = 0,   // slice -> private memory (put)
  out = 1,  // private memory -> slice (get)
};

struct Move {
  memory::Slice slice;
  std::byte* memory = nullptr;            // private; only read for MoveDirection::out
  std::uint64_t length = 0;               // bytes, at most the slice's
  std::uint64_t moved = 0;                // bytes done so far
  std::uint64_t digest = 0;               // xxh3-64 of the private bytes, when the move is done
  std::uint64_t ticket = 0;               // the mover's own, of a copy that is made elsewhere
  std::uint64_t copied = 0;               // the mover's own: by such copies, before the digest
  base::PayloadDigest* stream = nullptr;  // for a move of several steps
  memory::ObjectPart object;              // out: what the private bytes are called
  std::uint16_t page = 0;
  MoveDirection direction = MoveDirection::in;
  bool digest_wanted = false;
  Status status = Status::ok;  // why it ended
};

}  // namespace simm::transport
