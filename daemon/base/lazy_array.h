// LazyArray<T>: a fixed number of objects in address space mapped ahead: a page costs memory when
// it is first touched. For pools of large objects of which most are never used, or only in part.
//
// The memory starts as zeros, and that is the objects' first value: T is an implicit-lifetime type
// (trivially copyable) whose all-zero representation is valid. Nothing is constructed or destroyed.
// Throws std::bad_alloc from the constructor, as a container would; it is used at set-up only.
// Thread: the agent that owns the array.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>

#include "simm/check.h"

namespace simm::base {

template <typename T>
class LazyArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
  explicit LazyArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* mapped = ::mmap(nullptr, size * sizeof(T), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    objects_ = static_cast<T*>(mapped);
  }
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;
  ~LazyArray() {
    if (objects_ != nullptr) ::munmap(objects_, size_ * sizeof(T));
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t index) noexcept {
    SIMM_CHECK(index < size_);
    return objects_[index];
  }
  // All objects are zeros again, and their memory goes back.
  void forget() noexcept {
    if (objects_ != nullptr) ::madvise(objects_, size_ * sizeof(T), MADV_DONTNEED);
  }
  // The index of an object of this array.
  [[nodiscard]] std::size_t index_of(const T& object) const noexcept {
    const auto index = static_cast<std::size_t>(&object - objects_);
    SIMM_CHECK(index < size_);
    return index;
  }

private:
  std::size_t size_;
  T* objects_ = nullptr;
};

}  // namespace simm::base
