#include "python/native/extent.h"

#include <pybind11/stl.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace simm::python {
namespace {

namespace py = pybind11;

bool answers_true(const py::object& tensor, const char* question) {
  return py::hasattr(tensor, question) && tensor.attr(question)().cast<bool>();
}

// Elements of a view may share bytes (expand) or leave bytes out (steps). torch's strides are not
// negative.
std::uint64_t elements_between(const py::object& tensor) {
  const auto sizes = tensor.attr("size")().cast<std::vector<std::uint64_t>>();
  const auto strides = tensor.attr("stride")().cast<std::vector<std::uint64_t>>();
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

// torch is never imported here: what looks like a tensor is asked like one.
Extent of_tensor(const py::object& tensor) {
  Extent extent;
  extent.address = tensor.attr("data_ptr")().cast<std::uintptr_t>();
  extent.contiguous = tensor.attr("is_contiguous")().cast<bool>();
  const std::uint64_t elements =
      extent.contiguous ? tensor.attr("numel")().cast<std::uint64_t>() : elements_between(tensor);
  extent.length = elements * tensor.attr("element_size")().cast<std::uint64_t>();
  if (answers_true(tensor, "is_conj")) extent.lazy = "conjugated: use tensor.resolve_conj()";
  if (answers_true(tensor, "is_neg")) extent.lazy = "negated: use tensor.resolve_neg()";
  extent.on_device = tensor.attr("device").attr("type").cast<std::string>() != "cpu";
  extent.owner = tensor;
  return extent;
}

// Elements of a view may lie in either direction, share bytes, or leave bytes out.
struct Reach {
  std::int64_t before = 0;  // bytes below the first element's address, negative
  std::int64_t behind = 0;  // and up to the end of the last one
};

Reach reach_of(const std::int64_t* shape, const std::int64_t* strides, std::size_t dimensions,
               std::int64_t item_bytes) {
  Reach reach{0, item_bytes};
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::int64_t last = (shape[i] - 1) * strides[i];
    (last < 0 ? reach.before : reach.behind) += last;
  }
  return reach;
}

constexpr std::int64_t kStrideMax = std::int64_t{1} << 40;

// Source: numba's document of the CUDA Array Interface, versions 2 and 3.
Extent of_device_array(const py::object& array) {
  const std::string name = std::string("memory of ") + Py_TYPE(array.ptr())->tp_name;
  try {
    const auto facts = array.attr("__cuda_array_interface__").cast<py::dict>();
    const auto data = facts["data"].cast<py::tuple>();
    if (data[1].cast<bool>()) {
      throw py::type_error(name + ": it is read-only: copy it into another array");
    }
    const auto shape = facts["shape"].cast<std::vector<std::int64_t>>();
    const auto type = facts["typestr"].cast<std::string>();  // "<f4": four bytes
    const std::int64_t item_bytes = std::stoll(type.substr(2));
    Extent extent;
    extent.address = data[0].cast<std::uintptr_t>();
    extent.on_device = true;
    extent.owner = array;
    std::int64_t whole = item_bytes;
    for (const std::int64_t length : shape) {
      if (length < 0 || __builtin_mul_overflow(whole, length, &whole)) throw std::out_of_range("");
    }
    extent.length = static_cast<std::uint64_t>(whole);
    if (!facts.contains("strides") || facts["strides"].is_none() || whole == 0) return extent;
    const auto strides = facts["strides"].cast<std::vector<std::int64_t>>();
    std::int64_t step = item_bytes;
    for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) {
      if (shape[i] > 1 && strides.at(i) != step) extent.contiguous = false;
      if (std::abs(strides.at(i)) > kStrideMax) throw std::out_of_range("");
    }
    const Reach reach = reach_of(shape.data(), strides.data(), shape.size(), item_bytes);
    extent.address -= static_cast<std::uintptr_t>(-reach.before);
    extent.length = static_cast<std::uint64_t>(reach.behind - reach.before);
    return extent;
  } catch (const std::logic_error&) {  // numbers that are none, or too large
  } catch (const py::cast_error&) {
  } catch (const py::error_already_set&) {
  }
  throw py::type_error(name + ": its __cuda_array_interface__ has no good data, shape, typestr");
}

Extent of_buffer(const py::object& object) {
  // The memoryview keeps the export open, so that a bytearray can not move its memory.
  PyObject* const view = PyMemoryView_FromObject(object.ptr());
  if (view == nullptr) throw py::error_already_set();
  Extent extent;
  extent.owner = py::reinterpret_steal<py::object>(view);
  const Py_buffer* const buffer = PyMemoryView_GET_BUFFER(view);
  if (buffer->readonly != 0) {
    throw py::type_error(std::string("memory of ") + Py_TYPE(object.ptr())->tp_name +
                         ": it is read-only: copy it into a bytearray, array or tensor");
  }
  if (buffer->suboffsets != nullptr) {
    throw py::type_error(std::string("memory of ") + Py_TYPE(object.ptr())->tp_name +
                         ": in several pieces: copy it into a bytearray, array or tensor");
  }
  extent.address = reinterpret_cast<std::uintptr_t>(buffer->buf);
  extent.length = static_cast<std::uint64_t>(buffer->len);
  extent.contiguous = PyBuffer_IsContiguous(buffer, 'C') != 0;
  if (extent.contiguous || buffer->len == 0) return extent;
  // SAFETY: numbers only.
  const Reach reach = reach_of(buffer->shape, buffer->strides,
                               static_cast<std::size_t>(buffer->ndim), buffer->itemsize);
  extent.address -= static_cast<std::uintptr_t>(-reach.before);
  extent.length = static_cast<std::uint64_t>(reach.behind - reach.before);
  return extent;
}

bool is_tensor(const py::object& object) {
  return py::hasattr(object, "data_ptr") && py::hasattr(object, "element_size");
}

}  // namespace

bool is_still_at(const py::object& owner, std::uintptr_t address) noexcept {
  try {
    if (!owner || owner.is_none() || PyMemoryView_Check(owner.ptr()) || !is_tensor(owner)) {
      return true;
    }
    return owner.attr("data_ptr")().cast<std::uintptr_t>() == address;
  } catch (const std::exception&) {
    return false;
  }
}

Extent extent_of(const py::object& object) {
  if (is_tensor(object)) return of_tensor(object);
  if (PyObject_CheckBuffer(object.ptr()) != 0) return of_buffer(object);
  if (py::hasattr(object, "__cuda_array_interface__")) return of_device_array(object);
  throw py::type_error(std::string("memory of ") + Py_TYPE(object.ptr())->tp_name +
                       ": a torch tensor, an array of numpy, cupy or another GPU library, or an "
                       "object with the buffer protocol");
}

bool is_writable(const Extent& extent) {
  if (PyMemoryView_Check(extent.owner.ptr())) return true;  // of_buffer() has looked
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::uintptr_t at = extent.address;
  const std::uintptr_t end = extent.address + extent.length;
  while (at < end && std::getline(maps, line)) {
    std::uintptr_t first = 0;
    std::uintptr_t last = 0;
    char permissions[5] = "";
    const int read =
        std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &first, &last, permissions);
    if (read != 3 || last <= at) continue;
    if (first > at || permissions[1] != 'w') return false;
    at = last;
  }
  return true;
}

}  // namespace simm::python
