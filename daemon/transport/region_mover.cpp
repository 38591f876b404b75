#include "daemon/transport/region_mover.h"

#include <algorithm>

#include "daemon/base/hash.h"
#include "daemon/memory/copy_untrusted.h"

namespace simm::transport {

namespace {

// Small enough that a block is still in the second-level cache when it is hashed.
constexpr std::uint64_t kBlockBytes = 128 * 1024;

Status copy_block(const Move& move, std::uint64_t length) noexcept {
  // SAFETY: the move never goes beyond its length, which is that of its private memory.
  std::byte* own = move.memory + move.moved;
  return move.direction == MoveDirection::in
             ? memory::copy_untrusted(own, move.slice, move.moved, length)
             : memory::copy_untrusted(move.slice, move.moved, own, length);
}

}  // namespace

MoveProgress RegionMover::step(Move& move, std::uint64_t bytes_max) noexcept {
  const std::uint64_t end = move.moved + std::min(bytes_max, move.length - move.moved);
  const bool is_single = move.length <= kBlockBytes && move.moved == 0 && end == move.length;
  if (move.moved == 0 && move.digest_wanted && !is_single) move.stream->begin();
  while (move.moved < end) {
    const std::uint64_t length = std::min(kBlockBytes, end - move.moved);
    move.status = copy_block(move, length);
    if (move.status != Status::ok) return MoveProgress::done;
    if (move.digest_wanted && !is_single) move.stream->add(move.memory + move.moved, length);
    move.moved += length;
  }
  if (move.moved < move.length) return MoveProgress::running;
  if (move.digest_wanted) {
    move.digest = is_single ? base::payload_digest(move.memory, move.length) : move.stream->value();
  }
  return MoveProgress::done;
}

bool RegionMover::stop(Move&) noexcept {
  return true;
}

}  // namespace simm::transport
