// Extent: where the bytes of a Python object are: of a torch tensor, of anything with the buffer
// protocol (numpy, memoryview, mmap, bytearray), or of a device array.
// Thread: with the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

namespace simm::python {

struct Extent {
  std::uintptr_t address = 0;
  std::uint64_t length = 0;    // bytes, from the first to the last that an element has
  bool contiguous = true;      // in C's order
  const char* lazy = nullptr;  // what is to be done to the elements that the bytes do not show
  bool on_device = false;      // memory of a GPU: `address` is a device pointer
  pybind11::object owner;      // while it lives the memory stays where it is
};

// A tensor can lose its memory while it lives: another storage, or a storage of another size. Is
// the tensor's memory still at that address? True for owners that are no tensors: a buffer that is
// exported stays. Never throws.
bool is_still_at(const pybind11::object& owner, std::uintptr_t address) noexcept;

// TypeError when the object has no memory of that kind, or may not be written to.
Extent extent_of(const pybind11::object& object);

// Is the memory mapped so that it may be written? A tensor does not say it; reads /proc/self/maps.
bool is_writable(const Extent& extent);

}  // namespace simm::python
