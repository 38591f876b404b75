// SharedArray<T>: memory that a process and the children it forks later both see: how workers hand
// their figures back. Zero-filled; untouched pages cost nothing.
// Thread: the array itself synchronises nothing; use atomics or wait for the children.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <span>
#include <type_traits>

namespace simm::bench {

template <typename T>
class SharedArray {
  static_assert(std::is_trivially_destructible_v<T>);

public:
  explicit SharedArray(std::size_t size) : size_(size == 0 ? 1 : size) {
    void* at = mmap(nullptr, size_ * sizeof(T), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      std::perror("simm-bench: mmap of shared results");
      std::abort();
    }
    data_ = static_cast<T*>(at);
  }
  ~SharedArray() { munmap(data_, size_ * sizeof(T)); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  T& operator[](std::size_t index) { return data_[index]; }
  std::span<T> part(std::size_t first, std::size_t count) { return {data_ + first, count}; }

private:
  T* data_ = nullptr;
  std::size_t size_;
};

}  // namespace simm::bench
