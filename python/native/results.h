// ResultMaker: makes the Python object that a page's result becomes: a Code for put and delete, a
// Length for get and length (simm/results.py), a bool for exists. Pages of one call mostly have the
// same result, so the last object made is given out again. Thread: with the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include "python/native/batch.h"

namespace simm::python {

class ResultMaker {
public:
  explicit ResultMaker(Operation operation);
  pybind11::object operator()(const PageResult& result);

private:
  Operation operation_;
  bool tells_length_;
  pybind11::handle type_;
  long long last_value_ = 0;
  pybind11::object last_;
};

// Finds simm/results.py; called when the module is initialised.
void load_result_types();

}  // namespace simm::python
