#include "daemon/store/space/reserved_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace simm::store {

Expected<ReservedMemory> ReservedMemory::map(std::size_t bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return system_error("mmap of the store's tables", errno);
  // Random look-ups over large tables live on TLB hits. A refusal costs speed only.
  static_cast<void>(::madvise(mapped, bytes, MADV_HUGEPAGE));
  return ReservedMemory(static_cast<std::byte*>(mapped), bytes);
}

ReservedMemory::ReservedMemory(ReservedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

ReservedMemory::~ReservedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace simm::store
