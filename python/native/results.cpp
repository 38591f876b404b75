#include "python/native/results.h"

namespace simm::python {

namespace py = pybind11;

namespace {

// As long as the process: there is no good moment to give them back to a dying interpreter.
PyObject* code_type = nullptr;
PyObject* length_type = nullptr;

}  // namespace

void load_result_types() {
  const py::module_ results = py::module_::import("simm.results");
  code_type = results.attr("Code").cast<py::object>().release().ptr();
  length_type = results.attr("Length").cast<py::object>().release().ptr();
}

ResultMaker::ResultMaker(Operation operation)
    : operation_(operation),
      tells_length_(operation == Operation::get || operation == Operation::length),
      type_(tells_length_ ? length_type : code_type) {}

py::object ResultMaker::operator()(const PageResult& result) {
  if (operation_ == Operation::exists) return py::bool_(result.ok());
  long long value = static_cast<long long>(result.status);
  if (tells_length_ && result.ok()) value = static_cast<long long>(result.bytes);
  if (!last_ || value != last_value_) {
    last_ = type_(value);
    last_value_ = value;
  }
  return last_;
}

}  // namespace simm::python
