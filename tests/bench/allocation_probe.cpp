// A library to preload: counts the heap allocations of each thread into the file that the
// environment variable SIMM_ALLOCATION_FILE names, for engine.allocations of simm-bench.
//
// The file is a table of 1,024 slots {u32 thread id, u32 unused, u64 allocations}; a thread takes
// the next free slot at its first allocation. Frees are not counted: each has its allocation.
// Thread: any; a slot has one writer.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

// What glibc's own malloc is called besides: no look-up that would itself allocate.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace {

struct Slot {
  std::atomic<std::uint32_t> thread_id;
  std::uint32_t unused;
  std::atomic<std::uint64_t> allocations;
};
constexpr std::size_t kSlots = 1024;

Slot* g_slots = nullptr;
std::atomic<std::size_t> g_next{0};
thread_local Slot* t_slot = nullptr;

__attribute__((constructor)) void open_table() {
  const char* path = std::getenv("SIMM_ALLOCATION_FILE");
  const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* at = mmap(nullptr, kSlots * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) g_slots = static_cast<Slot*>(at);
  close(fd);
}

void count_one() {
  if (g_slots == nullptr) return;
  if (t_slot == nullptr) {
    const std::size_t index = g_next.fetch_add(1);
    if (index >= kSlots) return;
    t_slot = &g_slots[index];
    t_slot->thread_id = static_cast<std::uint32_t>(syscall(SYS_gettid));
  }
  t_slot->allocations.store(t_slot->allocations.load(std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);
}

}  // namespace

extern "C" {

void* malloc(std::size_t bytes) {
  count_one();
  return __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) {
  count_one();
  return __libc_calloc(count, bytes);
}

void* realloc(void* block, std::size_t bytes) {
  count_one();
  return __libc_realloc(block, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  count_one();
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return memalign(alignment, bytes);
}

int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

}  // extern "C"
