// Counts the heap allocations of this test's process. Not inline: a compiler that sees one half of
// a pair in a unity build takes it for a mismatch.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "tests/unit/daemon/shared_reads/shared_read_world.h"

namespace {

std::atomic<std::uint64_t> g_allocations{0};

void* counted(std::size_t bytes) {
  ++g_allocations;
  void* const block = std::malloc(bytes == 0 ? 1 : bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

std::uint64_t shared_read_world::allocations() noexcept {
  return g_allocations;
}

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return counted(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete[](void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete[](void* block, std::size_t) noexcept {
  std::free(block);
}
