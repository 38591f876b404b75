// What the daemon, the keeper of its GPU helpers and a helper say to each other: fixed structs over
// SEQPACKET socket pairs, and a memory file that the daemon makes for each life of a helper. All
// ends are of one build; sizes are checked all the same.
//
//   keeper   asked to start a helper
//   control  of a helper: its first message says whether it has its GPU; then memory of clients is
//            imported and released, one at a time, each answered. Its last one, when nobody has
//            asked, says why it ends
//   jobs     of a helper: pieces to copy; the answer is the state of the job's slot. One that wakes
//            is no piece: there is a new order in the file
//
// The file: GpuFileHeader, then a bounce buffer for each of the first slots. The header has a state
// for each slot, which pieces were given up, the helper's beat, the tier's orders, and what the
// tier counts and has. The buffers are for reads of a GPU's memory, and for writes of
// bytes that are not in the pool. The other slots are for writes straight out of the pool's arena,
// of which the helper has a mapping that can only be read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "daemon/base/random.h"
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
  std::uint64_t allocation_bytes = 0;  // import: of the whole allocation
  std::uint64_t tenant = 0;            // import: whose it is
  GpuUuid home{};                      // import: the GPU on which the allocation lies
};
static_assert(std::is_trivially_copyable_v<GpuControl> && sizeof(GpuControl) == 40);
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

// A tier takes and gives memory in extents of this size.
inline constexpr std::uint64_t kGpuExtentBytes = 64 << 20;
// A shorter piece is not worth a place: to start a copy costs as much as the bus would.
inline constexpr std::uint64_t kGpuTierPieceBytesMin = 16 << 10;
inline constexpr std::uint32_t kGpuImportsMax = 4096;
inline constexpr std::uint32_t kGpuSlots = 256;
inline constexpr std::uint32_t kGpuReadSlots = 16;    // slots 0 .. 15
inline constexpr std::uint32_t kGpuBounceSlots = 32;  // and 16 .. 31: writes out of the buffer
inline constexpr std::uint32_t kGpuNameCells = 1u << 17;
// Names of one tenant that were got once.
inline constexpr std::uint32_t kGpuSeenCells = 1u << 18;
inline constexpr std::uint64_t kGpuSlotsBytes = 20 * 1024;  // of the header without the names
inline constexpr std::uint64_t kGpuHeaderBytes = kGpuSlotsBytes + kGpuNameCells * 8;
inline constexpr std::uint64_t kGpuFileBytes = kGpuHeaderBytes + kGpuBounceSlots * kReadBytesMax;
inline constexpr std::uint32_t kGpuWakeSlot = kGpuSlots;  // of a job that only wakes the helper

struct GpuJob {
  std::uint32_t slot = 0;  // says in which direction
  std::uint32_t import = 0;
  std::uint64_t offset = 0;        // in the allocation
  std::uint64_t length = 0;        // 1 .. kReadBytesMax; out of the arena: kWriteBytesMax
  std::uint64_t arena_offset = 0;  // out of the arena: of the bytes
  // A write's: what the bytes are called (object_part.h); origin 0: they have no name.
  std::uint64_t object_serial = 0;
  std::uint64_t object_offset = 0;
  std::uint32_t object_origin = 0;
  std::uint32_t takes_in = 0;  // 1: the tier shall have them from now on
};
static_assert(std::is_trivially_copyable_v<GpuJob> && sizeof(GpuJob) == 56);

constexpr bool is_gpu_write_slot(std::uint32_t slot) noexcept {
  return slot >= kGpuReadSlots;
}
// Index of what there is once for each direction: out of the GPU, and into it.
constexpr std::size_t gpu_direction(std::uint32_t slot) noexcept {
  return is_gpu_write_slot(slot) ? 1 : 0;
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
  std::array<std::atomic<std::uint64_t>, 2> ended;  // pieces, by gpu_direction()
  // Messages on `control` that it has begun with: while it is at one it gives no other sign. With
  // a release it begins when the copies have ended that were begun before.
  std::atomic<std::uint64_t> controls;
};
// Pieces that nobody waits for any more: one that has not begun is not begun. Written by whoever
// has claimed the slot.
struct alignas(64) GpuGivenUp {
  std::array<std::atomic<bool>, kGpuSlots> slots;
};
// How large the tier may be from now on, and how much of the GPU's memory it leaves to others. The
// helper looks here in each turn, and answers by what the tier counts. Written by the daemon, the
// number last, which grows.
struct alignas(64) GpuTierOrder {
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> reserve_bytes;
  std::atomic<std::uint64_t> number;
};
// Of the helper's tier (gpu_tier.h), since the helper began. Written by it alone.
struct alignas(64) GpuTierCounts {
  using Number = std::atomic<std::uint64_t>;
  Number bytes;       // of the GPU's memory that it has, those that it is giving back included
  Number used_bytes;  // of copies in it
  Number pieces;
  Number hits;
  Number hit_bytes;
  Number admitted;
  Number evicted;
  Number refused;        // times that it could not grow: the GPU had no more memory to spare
  Number revoked_bytes;  // that it gave back
  Number revoke_ns;      // of the last time that it did
  Number revoke_max_ns;
  Number spare_bytes;  // of the GPU's memory, free beyond the reserve, when an order last came
  Number order_done;   // all memory is back that orders up to this one took from the tier
  Number peer_hits;    // pieces that went out of this tier into memory of other GPUs
  Number peer_hit_bytes;
};
static_assert(sizeof(GpuTierCounts) == 128);

// What the tier has, by fingerprints of names, for the daemon to look at before it asks another
// GPU's helper. A hint: names that meet drive each other out, and the helper looks again by the
// whole name. Written by the helper alone. An entry is in one of a few cells side by side.
struct alignas(64) GpuNames {
  static constexpr std::uint32_t kWays = 4;
  std::array<std::atomic<std::uint64_t>, kGpuNameCells> cells;

  [[nodiscard]] bool has(std::uint64_t print) const noexcept {
    const std::atomic<std::uint64_t>* const set = set_of(print);
    for (std::uint32_t way = 0; way < kWays; ++way) {
      if (set[way].load(std::memory_order_relaxed) == print) return true;
    }
    return false;
  }
  void add(std::uint64_t print) noexcept { replace(0, print, print); }
  void drop(std::uint64_t print) noexcept { replace(print, 0, print); }

private:
  [[nodiscard]] const std::atomic<std::uint64_t>* set_of(std::uint64_t print) const noexcept {
    return &cells[(print >> 20) % (kGpuNameCells / kWays) * kWays];
  }
  // In a cell that has `old`; a new entry takes the first cell when there is none.
  void replace(std::uint64_t old, std::uint64_t now, std::uint64_t print) noexcept {
    auto* const set = const_cast<std::atomic<std::uint64_t>*>(set_of(print));
    for (std::uint32_t way = 0; way < kWays; ++way) {
      if (set[way].load(std::memory_order_relaxed) != old) continue;
      return set[way].store(now, std::memory_order_relaxed);
    }
    if (now != 0) set[0].store(now, std::memory_order_relaxed);
  }
};
// Never 0, which is an empty cell.
inline std::uint64_t gpu_name_print(const ObjectPart& part, std::uint64_t tenant) noexcept {
  std::uint64_t state = part.serial ^ std::uint64_t{part.origin} << 48;
  state = base::splitmix64(state) ^ part.offset;
  state = base::splitmix64(state) ^ tenant;
  return base::splitmix64(state) | 1;
}

struct GpuFileHeader {
  std::array<PieceSlot, kGpuSlots> slots;
  GpuGivenUp given_up;
  GpuBeat beat;
  GpuTierOrder order;
  GpuTierCounts counts;
  GpuNames names;
};
static_assert(sizeof(GpuFileHeader) <= kGpuHeaderBytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

// SAFETY of all below: `file` is a mapping of the whole file; slot < kGpuSlots, and
// has_gpu_bounce() for the bytes.
inline GpuFileHeader& gpu_header(std::byte* file) noexcept {
  return *reinterpret_cast<GpuFileHeader*>(file);
}
inline PieceSlot& gpu_slot(std::byte* file, std::uint32_t slot) noexcept {
  return gpu_header(file).slots[slot];
}
inline std::atomic<bool>& gpu_given_up(std::byte* file, std::uint32_t slot) noexcept {
  return gpu_header(file).given_up.slots[slot];
}
inline GpuBeat& gpu_beat(std::byte* file) noexcept {
  return gpu_header(file).beat;
}
inline GpuTierOrder& gpu_tier_order(std::byte* file) noexcept {
  return gpu_header(file).order;
}
inline GpuTierCounts& gpu_tier_counts(std::byte* file) noexcept {
  return gpu_header(file).counts;
}
inline GpuNames& gpu_names(std::byte* file) noexcept {
  return gpu_header(file).names;
}
inline std::byte* gpu_bounce(std::byte* file, std::uint32_t slot) noexcept {
  return file + kGpuHeaderBytes + slot * kReadBytesMax;
}

}  // namespace simm::memory
