#include "daemon/transport/region_mover.h"

#include <algorithm>

#include "daemon/base/hash.h"
#include "daemon/memory/copy_untrusted.h"

namespace simm::transport {

namespace {

void add_to_digest(void* stream, const std::byte* block, std::size_t bytes) noexcept {
  static_cast<base::PayloadDigest*>(stream)->add(block, bytes);
}

MoveProgress move_at_once(Move& move) noexcept {
  if (move.direction == MoveDirection::in) {
    move.status = memory::copy_untrusted(move.memory, move.slice, 0, move.length);
  } else {
    move.status = memory::copy_untrusted(move.slice, 0, move.memory, move.length);
  }
  if (move.status != Status::ok) return MoveProgress::done;
  if (move.digest_wanted) move.digest = base::payload_digest(move.memory, move.length);
  move.moved = move.length;
  return MoveProgress::done;
}

// A part of a large move. In: the digest is taken on the way. Out: right before, when it is wanted.
Status move_part(const Move& move, std::uint64_t bytes) noexcept {
  // SAFETY: moved + bytes <= length, which both sides have.
  std::byte* const own = move.memory + move.moved;
  if (move.direction == MoveDirection::in) {
    return memory::stream_untrusted(own, move.slice, move.moved, bytes,
                                    {add_to_digest, move.stream});
  }
  if (move.digest_wanted) move.stream->add(own, bytes);
  return memory::stream_untrusted(move.slice, move.moved, own, bytes);
}

}  // namespace

MoveProgress RegionMover::step(Move& move, std::uint64_t bytes_max) noexcept {
  if (move.length < memory::kStreamBytesMin) return move_at_once(move);
  if (move.moved == 0) move.stream->begin();
  const std::uint64_t bytes = std::min(bytes_max, move.length - move.moved);
  move.status = move_part(move, bytes);
  if (move.status != Status::ok) return MoveProgress::done;
  move.moved += bytes;
  if (move.moved < move.length) return MoveProgress::running;
  if (move.digest_wanted) move.digest = move.stream->value();
  return MoveProgress::done;
}

bool RegionMover::stop(Move&) noexcept {
  return true;
}

}  // namespace simm::transport
