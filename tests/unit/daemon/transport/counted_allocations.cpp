#include "tests/unit/daemon/transport/counted_allocations.h"

#include <cstdlib>
#include <new>

#include "simm/check.h"

namespace counted_allocations {

void* counted(std::size_t bytes) {
  if (t_is_counting) ++t_count;
  void* const memory = std::malloc(bytes);
  SIMM_CHECK(memory != nullptr);
  return memory;
}

}  // namespace counted_allocations

// Of the whole test program: all other forms come here, or need none. Not inlined: compilers warn
// about the halves of a pair that they see.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return counted_allocations::counted(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  return counted_allocations::counted(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
