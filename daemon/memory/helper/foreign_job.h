// What a foreign worker is told, and the memory in which it answers: a bounce file that the daemon
// made for it and both map. Each job has a slot: a state word in the first page of that file.
// The first slots are for reads of the client's memory, each with a bounce buffer in that file; the
// others are for writes, straight out of the arena, of which the worker has a mapping that can only
// be read. So all that a worker can write is this file and its client's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/memory/helper/copier.h"
#include "daemon/memory/helper/piece_slot.h"
#include "ipc/range.h"

namespace simm::memory {

inline constexpr std::uint32_t kForeignSlots = 64;
inline constexpr std::uint32_t kReadSlots = 8;  // slots 0 .. 7
inline constexpr std::uint64_t kBounceHeaderBytes = 4096;
inline constexpr std::uint64_t kBounceBytes = kBounceHeaderBytes + kReadSlots * kReadBytesMax;

struct ForeignJob {
  std::uint32_t slot = 0;  // says what to do
  std::uint32_t reserved = 0;
  std::uint64_t client_address = 0;  // in the client's address space
  std::uint64_t length = 0;          // 1 .. kReadBytesMax or kWriteBytesMax
  std::uint64_t arena_offset = 0;    // write: of the bytes
};
static_assert(sizeof(ForeignJob) == 32);

constexpr bool is_write_slot(std::uint32_t slot) noexcept {
  return slot >= kReadSlots;
}

// Both sides ask this, the daemon before it posts a job and the worker before it touches anything.
constexpr bool is_job_sound(const ForeignJob& job, std::uint64_t arena_bytes) noexcept {
  if (job.slot >= kForeignSlots || job.length == 0) return false;
  if (!is_write_slot(job.slot)) return job.length <= kReadBytesMax;
  return job.length <= kWriteBytesMax &&
         ipc::range_within(job.arena_offset, job.length, arena_bytes);
}

static_assert(kForeignSlots * sizeof(PieceSlot) <= kBounceHeaderBytes);

// SAFETY of both: `mapping` is the whole bounce file, kBounceBytes long; slot < kForeignSlots, and
// < kReadSlots for the bytes.
inline PieceSlot& bounce_slot(std::byte* mapping, std::uint32_t slot) noexcept {
  return reinterpret_cast<PieceSlot*>(mapping)[slot];
}
inline std::byte* bounce_bytes(std::byte* mapping, std::uint32_t slot) noexcept {
  return mapping + kBounceHeaderBytes + slot * kReadBytesMax;
}

}  // namespace simm::memory
