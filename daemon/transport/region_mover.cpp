#include "daemon/transport/region_mover.h"

#include <algorithm>

#include "daemon/base/hash.h"
#include "daemon/memory/copy_untrusted.h"
#include "daemon/memory/helper/copier.h"
#include "daemon/transport/digest_sink.h"

namespace simm::transport {

namespace {

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
    return memory::stream_untrusted(own, move.slice, move.moved, bytes, digest_sink(move.stream));
  }
  if (move.digest_wanted) move.stream->add(own, bytes);
  return memory::stream_untrusted(move.slice, move.moved, own, bytes);
}

// Of the move's next piece.
std::uint64_t piece_bytes(const Move& move) noexcept {
  const std::uint64_t most =
      move.direction == MoveDirection::in
          ? memory::kReadBytesMax
          : move.slice.region->copier->write_bytes_max(move.memory + move.copied);
  return std::min(most, move.length - move.copied);
}

// Posts the next piece of a foreign move, if there is one. lost: there is no worker.
memory::PieceState post_piece(Move& move) noexcept {
  memory::Copier& copier = *move.slice.region->copier;
  const std::uint64_t address = move.slice.region->client_address + move.slice.offset + move.copied;
  // SAFETY: copied < length, which both sides have.
  memory::ObjectPart part = move.object;
  part.offset += move.copied;
  const Status posted = move.direction == MoveDirection::in
                            ? copier.post_read(address, piece_bytes(move), move.ticket)
                            : copier.post_object(address, part, move.memory + move.copied,
                                                 piece_bytes(move), move.ticket);
  const bool is_on = posted == Status::ok || posted == Status::no_space;
  return is_on ? memory::PieceState::pending : memory::PieceState::lost;
}

// What became of the piece that was posted. ok: `copied` grew.
memory::PieceState take_piece(Move& move) noexcept {
  memory::Copier& copier = *move.slice.region->copier;
  // SAFETY: copied < length, which both sides have.
  std::byte* const own = move.memory + move.copied;
  const std::uint64_t bytes = piece_bytes(move);
  const bool is_read = move.direction == MoveDirection::in;
  const memory::PieceState state = copier.poll(move.ticket, is_read ? own : nullptr, bytes);
  if (state != memory::PieceState::pending) move.ticket = 0;
  if (state == memory::PieceState::ok) move.copied += bytes;
  // The next step posts it again.
  return state == memory::PieceState::retry ? memory::PieceState::pending : state;
}

// Gets the move to where there are bytes that are copied and not counted yet, or not.
memory::PieceState copy_pieces(Move& move) noexcept {
  if (move.ticket == 0 && move.copied == move.moved) {
    if (const auto state = post_piece(move); move.ticket == 0) return state;
  }
  if (move.copied == move.moved) {
    if (const auto state = take_piece(move); state != memory::PieceState::ok) return state;
  }
  // Without a slot or a worker the next step tells.
  if (move.ticket == 0 && move.copied < move.length) (void)post_piece(move);
  return memory::PieceState::ok;
}

}  // namespace

MoveProgress RegionMover::step_mapped(Move& move, std::uint64_t bytes_max) noexcept {
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

// At most one piece of a move is under way; its ticket is in the move.
MoveProgress RegionMover::step_foreign(Move& move, std::uint64_t bytes_max) noexcept {
  if (move.length == 0) return move_at_once(move);
  const memory::PieceState state = copy_pieces(move);
  if (state == memory::PieceState::pending) return MoveProgress::waiting;
  if (state != memory::PieceState::ok) {
    // lost: the worker was killed at a fence or the client is dead, nothing that this page did
    // wrong.
    const bool is_lost = state == memory::PieceState::lost;
    move.status = is_lost ? Status::unreachable : Status::transfer_failed;
    return MoveProgress::done;
  }
  std::uint64_t bytes = move.copied - move.moved;
  if (move.digest_wanted) {
    // The private bytes are what the object will be: whatever the client does to its own now.
    if (move.moved == 0) move.stream->begin();
    bytes = std::min(bytes, bytes_max);
    move.stream->add(move.memory + move.moved, bytes);
  }
  move.moved += bytes;
  if (move.moved < move.length) return MoveProgress::running;
  if (move.digest_wanted) move.digest = move.stream->value();
  return MoveProgress::done;
}

void RegionMover::begin(Move& move) noexcept {
  if (!move.slice.is_reached_by(memory::Reach::helper) || move.ticket != 0) return;
  if (move.copied == 0 && move.length > 0) (void)post_piece(move);
}

MoveProgress RegionMover::step(Move& move, std::uint64_t bytes_max) noexcept {
  const bool is_foreign = move.slice.is_reached_by(memory::Reach::helper);
  return is_foreign ? step_foreign(move, bytes_max) : step_mapped(move, bytes_max);
}

bool RegionMover::stop(Move& move) noexcept {
  if (move.ticket == 0) return true;
  memory::Copier& copier = *move.slice.region->copier;
  // A write that is under way may still reach the client's pages: only the death of the worker ends
  // that for certain.
  if (copier.poll(move.ticket, nullptr, 0) == memory::PieceState::pending) {
    copier.fence(move.ticket);
    if (!copier.is_fenced(move.ticket)) return false;
  }
  move.ticket = 0;
  return true;
}

}  // namespace simm::transport
