// What a foreign worker is told, and the memory in which it answers: a bounce file that the daemon
// made and both map. A slot has a status word of its own in the first page, then its bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace simm::memory {

inline constexpr std::uint32_t kBounceSlots = 8;
inline constexpr std::uint64_t kBounceSlotBytes = 1024 * 1024;
inline constexpr std::uint64_t kBounceHeaderBytes = 4096;
inline constexpr std::uint64_t kBounceBytes = kBounceHeaderBytes + kBounceSlots * kBounceSlotBytes;

struct ForeignJob {
  std::uint32_t slot = 0;
  std::uint32_t is_write = 0;        // 1: into the client's memory
  std::uint64_t client_address = 0;  // in the client's address space
  std::uint64_t length = 0;          // 1 .. kBounceSlotBytes
};
static_assert(sizeof(ForeignJob) == 24);

// BounceSlot::state: free -> (an agent claims it) claimed -> (posted; the worker works) -> ok or
// failed
// -> (the agent takes the result) free.
enum class BounceState : std::uint32_t { free = 0, claimed = 1, ok = 2, failed = 3 };

struct alignas(64) BounceSlot {
  std::atomic<std::uint32_t> state;
};
static_assert(kBounceSlots * sizeof(BounceSlot) <= kBounceHeaderBytes);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// SAFETY of both: `mapping` is the whole bounce file, kBounceBytes long, and slot < kBounceSlots.
inline BounceSlot& bounce_slot(std::byte* mapping, std::uint32_t slot) noexcept {
  return reinterpret_cast<BounceSlot*>(mapping)[slot];
}
inline std::byte* bounce_bytes(std::byte* mapping, std::uint32_t slot) noexcept {
  return mapping + kBounceHeaderBytes + slot * kBounceSlotBytes;
}

}  // namespace simm::memory
