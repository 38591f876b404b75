#include "daemon/tools/simm-bench/aliased_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "ipc/fd.h"

namespace simm::bench {

Expected<AliasedMemory> AliasedMemory::map(std::uint64_t bytes) {
  const std::size_t size = (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  const ipc::UniqueFd piece(::memfd_create("simm-bench-piece", MFD_CLOEXEC));
  if (!piece || ::ftruncate(piece.get(), kPieceBytes) != 0) {
    return system_error("memfd for a simulated arena", errno);
  }
  void* all = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return system_error("address space for a simulated arena", errno);
  AliasedMemory made(static_cast<std::byte*>(all), size);
  for (std::size_t at = 0; at < size; at += kPieceBytes) {
    // SAFETY: at + kPieceBytes <= size; the fixed mapping replaces a part of our own.
    void* mapped = ::mmap(made.data_ + at, kPieceBytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, piece.get(), 0);
    if (mapped == MAP_FAILED) return system_error("mapping a simulated arena", errno);
  }
  return made;
}

AliasedMemory::AliasedMemory(AliasedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AliasedMemory::~AliasedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace simm::bench
