#include "python/native/arguments.h"

#include <limits>

namespace simm::python {

namespace py = pybind11;

namespace {

constexpr std::size_t kShownBytesMax = 60;

// Short: a caller may have passed all of its keys.
std::string shown(py::handle value) {
  std::string text = type_of(value.ptr());
  const bool is_number = PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr());
  if (value.is_none() || is_number || PyIndex_Check(value.ptr())) {
    text = std::string(py::repr(value));
  }
  if (text.size() > kShownBytesMax) text = text.substr(0, kShownBytesMax) + "...";
  return text;
}

std::string wanted(py::handle value, const char* name, std::uint64_t most, const char* unit) {
  return std::string(name) + " = " + shown(value) + ": give a whole number of " + unit +
         " from 0 to " + std::to_string(most);
}

}  // namespace

std::uint64_t whole_number(py::handle value, const char* name, std::uint64_t most,
                           const char* unit) {
  if (PyIndex_Check(value.ptr()) == 0) throw py::type_error(wanted(value, name, most, unit));
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!number) throw py::error_already_set();
  const std::uint64_t found = PyLong_AsUnsignedLongLong(number.ptr());
  const bool overflowed = PyErr_Occurred() != nullptr;
  if (overflowed) PyErr_Clear();
  if (overflowed || found > most) throw py::value_error(wanted(value, name, most, unit));
  return found;
}

std::uint32_t milliseconds(py::handle value, const char* name) {
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(whole_number(value, name, kMost, "milliseconds"));
}

py::tuple entries_of(const py::object& list, const char* name) {
  PyObject* const object = list.ptr();
  const bool is_text = PyUnicode_Check(object) || PyBytes_Check(object);
  const bool is_iterable = Py_TYPE(object)->tp_iter != nullptr || PySequence_Check(object) != 0;
  if (is_text || !is_iterable) {
    throw py::type_error(std::string(name) + ": " + type_of(object) + ": give a list");
  }
  PyObject* const tuple = PySequence_Tuple(object);
  if (tuple == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::tuple>(tuple);
}

std::string type_of(PyObject* object) {
  return Py_TYPE(object)->tp_name;
}

}  // namespace simm::python
