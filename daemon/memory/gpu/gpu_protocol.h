// What the daemon, the keeper of its GPU helpers and a helper say to each other: fixed structs over
// SEQPACKET socket pairs, and a memory file that the daemon makes for each life of a helper. All
// ends are of one build; sizes are checked all the same.
//
//   keeper   asked to start a helper
//   control  of a helper: its first message says whether it has its GPU; then memory of clients is
//            imported and released, one at a time, each answered. Its last one, when nobody has
//            asked, says why it ends
//   jobs     of a helper: pieces to copy; the answer is the state of the job's slot
//
// The file: a state for each slot and the helper's beat, then a bounce buffer for each of the first
// slots. Those are for reads of a GPU's memory, and for writes of bytes that are not in the pool.
// The other slots are for writes straight out of the pool's arena, of which the helper has a
// mapping that can only be read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "daemon/memory/helper/copier.h"
#include "daemon/memory/helper/piece_slot.h"
#include "ipc/range.h"
#include "simm/expected.h"

namespace simm::memory {

using GpuUuid = std::array<std::uint8_t, 16>;

// Start a helper: with its ends of control and jobs, the file and, if there is one, the arena.
// Answered with the helper's pidfd and its number.
struct KeeperRequest {
  std::uint32_t number = 0;      // of the request
  std::uint32_t pins_arena = 0;  // 1: the driver shall pin the pool, which is in memory anyway
  GpuUuid uuid{};
  std::uint64_t arena_bytes = 0;
};
static_assert(std::is_trivially_copyable_v<KeeperRequest> && sizeof(KeeperRequest) == 32);
struct KeeperReply {
  std::uint32_t number = 0;
  std::int32_t status = 0;  // simm::Status
  std::int32_t pid = -1;    // of the helper, for people
};
static_assert(sizeof(KeeperReply) == 12);

enum class GpuControlOp : std::uint32_t {
  import = 1,   // with the descriptor of an allocation
  release = 2,  // nothing of the import is under way, and nothing will be
};
struct GpuControl {
  GpuControlOp op = GpuControlOp::import;
  std::uint32_t import = 0;            // its number, chosen by the daemon, below kGpuImportsMax
  std::uint64_t allocation_bytes = 0;  // of the whole allocation
};
static_assert(std::is_trivially_copyable_v<GpuControl> && sizeof(GpuControl) == 16);
struct GpuControlReply {
  std::int32_t status = 0;  // simm::Status
  char text[252] = {};      // why not; of the first one that is ok, the GPU's name. Zero-terminated
};
static_assert(sizeof(GpuControlReply) == 256);

// A driver that went wrong may have made its helper say anything.
inline std::string text_of(const GpuControlReply& reply) {
  std::string text(reply.text, ::strnlen(reply.text, sizeof reply.text));
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return text;
}
inline Outcome outcome_of(const GpuControlReply& reply) {
  if (reply.status == 0) return Done{};
  const bool is_known = is_known_status(reply.status);
  return Error{is_known ? static_cast<Status>(reply.status) : Status::io_error, text_of(reply)};
}

inline constexpr std::uint32_t kGpuImportsMax = 4096;
inline constexpr std::uint32_t kGpuSlots = 256;
inline constexpr std::uint32_t kGpuReadSlots = 16;    // slots 0 .. 15
inline constexpr std::uint32_t kGpuBounceSlots = 32;  // and 16 .. 31: writes out of the buffer
inline constexpr std::uint64_t kGpuHeaderBytes = 20 * 1024;
inline constexpr std::uint64_t kGpuFileBytes = kGpuHeaderBytes + kGpuBounceSlots * kReadBytesMax;

struct GpuJob {
  std::uint32_t slot = 0;  // says in which direction
  std::uint32_t import = 0;
  std::uint64_t offset = 0;        // in the allocation
  std::uint64_t length = 0;        // 1 .. kReadBytesMax; out of the arena: kWriteBytesMax
  std::uint64_t arena_offset = 0;  // out of the arena: of the bytes
};
static_assert(std::is_trivially_copyable_v<GpuJob> && sizeof(GpuJob) == 32);

constexpr bool is_gpu_write_slot(std::uint32_t slot) noexcept {
  return slot >= kGpuReadSlots;
}
constexpr bool has_gpu_bounce(std::uint32_t slot) noexcept {
  return slot < kGpuBounceSlots;
}

// Both sides ask this, the daemon before it posts a job and the helper before it touches anything.
// That [offset, offset + length) lies in the import is looked at by the helper.
constexpr bool is_gpu_job_sound(const GpuJob& job, std::uint64_t arena_bytes) noexcept {
  if (job.slot >= kGpuSlots || job.import >= kGpuImportsMax || job.length == 0) return false;
  if (has_gpu_bounce(job.slot)) return job.length <= kReadBytesMax;
  return job.length <= kWriteBytesMax &&
         ipc::range_within(job.arena_offset, job.length, arena_bytes);
}

struct alignas(64) GpuBeat {
  std::atomic<std::uint64_t> turns;  // grows while the helper is alive and its driver answers
};
static_assert(kGpuSlots * sizeof(PieceSlot) + sizeof(GpuBeat) <= kGpuHeaderBytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// SAFETY of all three: `file` is a mapping of the whole file; slot < kGpuSlots, and
// has_gpu_bounce() for the bytes.
inline PieceSlot& gpu_slot(std::byte* file, std::uint32_t slot) noexcept {
  return reinterpret_cast<PieceSlot*>(file)[slot];
}
inline GpuBeat& gpu_beat(std::byte* file) noexcept {
  return *reinterpret_cast<GpuBeat*>(file + kGpuSlots * sizeof(PieceSlot));
}
inline std::byte* gpu_bounce(std::byte* file, std::uint32_t slot) noexcept {
  return file + kGpuHeaderBytes + slot * kReadBytesMax;
}

}  // namespace simm::memory
