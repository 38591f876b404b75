#include "daemon/transport/rdma/registration/chunk_table.h"

#include <algorithm>

#include "ipc/range.h"
#include "simm/check.h"

namespace simm::transport {
namespace {

std::uint32_t chunks_of(std::uint64_t bytes) noexcept {
  SIMM_CHECK(bytes > 0 && (bytes - 1) / kRegisteredChunkBytes < UINT32_MAX);
  return static_cast<std::uint32_t>((bytes - 1) / kRegisteredChunkBytes + 1);
}

}  // namespace

ChunkTable::ChunkTable(std::uint64_t bytes, std::uint32_t rails, WorkBell& bell)
    : bytes_(bytes),
      rails_(rails),
      chunks_(chunks_of(bytes)),
      bell_(bell),
      cells_(std::make_unique<Cell[]>(std::size_t{chunks_} * rails)) {
  SIMM_CHECK(rails >= 1 && rails <= kRailsMax);
}

ChunkTable::Cell& ChunkTable::cell(std::uint32_t chunk, std::uint32_t rail) const noexcept {
  SIMM_CHECK(chunk < chunks_ && rail < rails_);
  return cells_[std::size_t{chunk} * rails_ + rail];
}

std::uint64_t ChunkTable::chunk_bytes(std::uint32_t chunk) const noexcept {
  SIMM_CHECK(chunk < chunks_);
  return std::min(kRegisteredChunkBytes, bytes_ - chunk * kRegisteredChunkBytes);
}

KeysFound ChunkTable::find(std::uint32_t rail, std::uint64_t offset, std::uint64_t bytes,
                           KeyedSpan& span) noexcept {
  SIMM_CHECK(ipc::range_within(offset, bytes, bytes_));
  span.part_count = 0;
  if (bytes == 0) return KeysFound::all;
  const std::uint64_t first = offset / kRegisteredChunkBytes;
  const std::uint64_t last = (offset + bytes - 1) / kRegisteredChunkBytes;
  if (last - first >= span.parts.size()) return KeysFound::too_long;
  KeysFound found = KeysFound::all;
  std::uint64_t at = offset;
  for (std::uint64_t chunk = first; chunk <= last; ++chunk) {
    KeyedPart& part = span.parts[chunk - first];
    const std::uint64_t into = at - chunk * kRegisteredChunkBytes;
    part.bytes = std::min(offset + bytes - at, kRegisteredChunkBytes - into);
    // All chunks are asked for at once: the span needs them together. The worst answer counts.
    found = std::max(found, find_in(static_cast<std::uint32_t>(chunk), rail, part.keys));
    part.keys.remote_address += into;
    at += part.bytes;
  }
  if (found == KeysFound::all) span.part_count = static_cast<std::uint8_t>(last - first + 1);
  return found;
}

KeysFound ChunkTable::look(std::uint32_t rail, std::uint64_t offset,
                           std::uint64_t bytes) const noexcept {
  SIMM_CHECK(ipc::range_within(offset, bytes, bytes_));
  KeysFound found = KeysFound::all;
  if (bytes == 0) return found;
  const std::uint64_t last = (offset + bytes - 1) / kRegisteredChunkBytes;
  for (std::uint64_t chunk = offset / kRegisteredChunkBytes; chunk <= last; ++chunk) {
    const ChunkState its = state(static_cast<std::uint32_t>(chunk), rail);
    if (its == ChunkState::registered) continue;
    found = std::max(found, its == ChunkState::failed ? KeysFound::failed : KeysFound::later);
  }
  return found;
}

KeysFound ChunkTable::find_in(std::uint32_t chunk, std::uint32_t rail, ChunkKeys& keys) noexcept {
  Cell& of = cell(chunk, rail);
  const ChunkState state = of.state.load(std::memory_order_acquire);
  if (state == ChunkState::registered) {
    keys = of.keys;
    return KeysFound::all;
  }
  // One wish of anybody is enough, and one that is left already costs the next ones a load.
  if (state != ChunkState::wanted && !of.asked.load(std::memory_order_relaxed)) {
    of.asked.store(true, std::memory_order_relaxed);
    wishes_.store(true, std::memory_order_release);
    bell_.ring();
  }
  return state == ChunkState::failed ? KeysFound::failed : KeysFound::later;
}

KeysFound ChunkTable::find_whole(std::uint32_t rail) noexcept {
  KeysFound found = KeysFound::all;
  for (std::uint32_t at = 0; at < chunks_; ++at) {
    ChunkKeys keys;
    // What is only late has its turn in the background, and is not pushed before others.
    const ChunkState its = state(at, rail);
    if (its == ChunkState::registered) continue;
    found = std::max(found, its == ChunkState::failed ? find_in(at, rail, keys) : KeysFound::later);
  }
  return found;
}

ChunkState ChunkTable::state(std::uint32_t chunk, std::uint32_t rail) const noexcept {
  return cell(chunk, rail).state.load(std::memory_order_acquire);
}

bool ChunkTable::take_wishes() noexcept {
  // Of thousands of ranges few have wishes. Who answered the bell sees those that rang it.
  if (!wishes_.load(std::memory_order_relaxed)) return false;
  return wishes_.exchange(false, std::memory_order_acq_rel);
}

bool ChunkTable::is_asked(std::uint32_t chunk, std::uint32_t rail) const noexcept {
  return cell(chunk, rail).asked.load(std::memory_order_relaxed);
}

void ChunkTable::forget_wish(std::uint32_t chunk, std::uint32_t rail) noexcept {
  cell(chunk, rail).asked.store(false, std::memory_order_relaxed);
}

void ChunkTable::publish(std::uint32_t chunk, std::uint32_t rail, const ChunkKeys& keys) noexcept {
  Cell& of = cell(chunk, rail);
  SIMM_CHECK(of.state.load(std::memory_order_relaxed) == ChunkState::wanted);
  of.keys = keys;
  of.state.store(ChunkState::registered, std::memory_order_release);
}

void ChunkTable::withdraw(std::uint32_t chunk, std::uint32_t rail) noexcept {
  cell(chunk, rail).state.store(ChunkState::absent, std::memory_order_release);
}

void ChunkTable::set_state(std::uint32_t chunk, std::uint32_t rail, ChunkState state) noexcept {
  Cell& of = cell(chunk, rail);
  SIMM_CHECK(state != ChunkState::registered &&
             of.state.load(std::memory_order_relaxed) != ChunkState::registered);
  of.state.store(state, std::memory_order_release);
}

}  // namespace simm::transport
