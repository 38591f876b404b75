// CrewArray: a long array that the threads of one recovery fill. Its memory is zeros, comes in huge
// pages where there are any, and is touched first by whoever writes it.
// Thread: elements by the threads of a crew, each its own; the rest by the one that recovers.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "daemon/store/space/reserved_memory.h"

namespace simm::store {

template <typename T>
class CrewArray {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  // Throws std::bad_alloc.
  explicit CrewArray(std::size_t size) : memory_(take(size * sizeof(T))), size_(size) {}
  CrewArray(CrewArray&& other) noexcept
      : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // What is behind the new end is gone.
  void shorten(std::size_t size) noexcept { size_ = size; }
  [[nodiscard]] T* data() noexcept { return reinterpret_cast<T*>(memory_.data()); }
  [[nodiscard]] const T* data() const noexcept {
    return reinterpret_cast<const T*>(memory_.data());
  }
  [[nodiscard]] T& operator[](std::size_t at) noexcept { return data()[at]; }
  [[nodiscard]] const T& operator[](std::size_t at) const noexcept { return data()[at]; }
  [[nodiscard]] T* begin() noexcept { return data(); }
  [[nodiscard]] T* end() noexcept { return data() + size_; }
  [[nodiscard]] const T* begin() const noexcept { return data(); }
  [[nodiscard]] const T* end() const noexcept { return data() + size_; }

private:
  static ReservedMemory take(std::size_t bytes) {
    auto memory = ReservedMemory::map(bytes == 0 ? 1 : bytes);
    if (!memory) throw std::bad_alloc();
    return std::move(*memory);
  }

  ReservedMemory memory_;
  std::size_t size_;
};

}  // namespace simm::store
