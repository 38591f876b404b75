#include "python/native/extent.h"

#include <string>

namespace simm::python {
namespace {

namespace py = pybind11;

// torch is never imported here: what looks like a tensor is asked like one.
Extent of_tensor(const py::object& tensor) {
  Extent extent;
  extent.address = tensor.attr("data_ptr")().cast<std::uintptr_t>();
  extent.length = tensor.attr("numel")().cast<std::uint64_t>() *
                  tensor.attr("element_size")().cast<std::uint64_t>();
  extent.contiguous = tensor.attr("is_contiguous")().cast<bool>();
  extent.on_device = tensor.attr("device").attr("type").cast<std::string>() != "cpu";
  extent.owner = tensor;
  return extent;
}

Extent of_device_array(const py::object& array) {
  const auto facts = array.attr("__cuda_array_interface__").cast<py::dict>();
  Extent extent;
  extent.address = facts["data"].cast<py::tuple>()[0].cast<std::uintptr_t>();
  extent.on_device = true;
  extent.owner = array;
  return extent;
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
  extent.address = reinterpret_cast<std::uintptr_t>(buffer->buf);
  extent.length = static_cast<std::uint64_t>(buffer->len);
  extent.contiguous = PyBuffer_IsContiguous(buffer, 'A') != 0;
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
                       ": a torch tensor, a numpy array or an object with the buffer protocol");
}

}  // namespace simm::python
