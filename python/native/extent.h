// Extent: where the bytes of a Python object are: of a torch tensor, of anything with the buffer
// protocol (numpy, memoryview, mmap, bytearray), or of a device array.
// Thread: with the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

namespace simm::python {

struct Extent {
  std::uintptr_t address = 0;
  std::uint64_t length = 0;  // bytes
  bool contiguous = true;
  bool on_device = false;  // memory of a GPU: `address` is a device pointer
  pybind11::object owner;  // while it lives the memory stays where it is
};

// TypeError when the object has no memory of that kind, or may not be written to.
Extent extent_of(const pybind11::object& object);

}  // namespace simm::python
