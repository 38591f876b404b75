// Prefetches of lines that go back and forth between the caches of two CPUs. Fetching ahead turns
// one trip per line into one trip per batch. A prefetch reads nothing and faults never, whatever
// the address; what is in the line does not matter. Thread: any.
#pragma once

namespace simm::ipc {

inline void fetch_to_read(const void* line) noexcept {
  __builtin_prefetch(line);
}

// Takes the line away from the other CPU at once, instead of when the store buffer gets there.
inline void fetch_to_write(void* line) noexcept {
#if defined(__x86_64__)
  // Not the builtin: without -mprfchw that fetches to read only. (A no-op where it is unknown.)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace simm::ipc
