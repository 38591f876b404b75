// copy_untrusted: the one way in which the daemon touches a client's region. Nothing else may
// dereference Region::base. (The kernel may be told to, with what kernel_place() answers.)
//
// The private side is memory of the daemon. Bytes on the client's side may change while they are
// copied: whoever needs a digest takes it of the private side, block by block while it is in cache.
//   ok               copied
//   transfer_failed  the region's memory vanished (SIGBUS); the target is partly written
//   out_of_memory    absent pages beyond the session's touch budget; nothing was touched
//   unsupported      a region that is not mapped here (foreign)
// Thread: any data agent. FaultGuard::install() came first. No allocation, no blocking call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/memory/region.h"
#include "daemon/memory/stream_copy.h"
#include "simm/status.h"

namespace simm::memory {

// Copies `bytes` bytes between `own` and the slice's bytes from `at` on. at + bytes lies within the
// slice: the caller's duty, checked.
Status copy_untrusted(std::byte* own, const Slice& from, std::uint64_t at,
                      std::uint64_t bytes) noexcept;
Status copy_untrusted(const Slice& to, std::uint64_t at, const std::byte* own,
                      std::uint64_t bytes) noexcept;

// The same for large payloads, around the cache (stream_copy.h). Reading, `sink` is shown the very
// bytes that were stored at `own`.
Status stream_untrusted(std::byte* own, const Slice& from, std::uint64_t at, std::uint64_t bytes,
                        BlockSink sink) noexcept;
Status stream_untrusted(const Slice& to, std::uint64_t at, const std::byte* own,
                        std::uint64_t bytes) noexcept;

// Shows the slice's bytes to `sink` where they lie: for bytes that the kernel put there. The sink
// is left by a jump when they vanish, so it must own nothing.
Status show_untrusted(const Slice& from, std::uint64_t at, std::uint64_t bytes,
                      BlockSink sink) noexcept;

// Where the kernel may put `bytes` bytes for the slice, or take them, from `at` on: null with the
// reason in `status` when absent pages are beyond the touch budget, or nothing is mapped. Memory
// that vanished is the kernel's EFAULT.
std::byte* kernel_place(const Slice& to, std::uint64_t at, std::uint64_t bytes,
                        Status& status) noexcept;

}  // namespace simm::memory
