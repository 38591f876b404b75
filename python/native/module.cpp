// The extension module simm._native: what simm/*.py is built on. Not an interface of its own.
#include <dlfcn.h>
#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>

#include "python/native/connection.h"
#include "python/native/followed_keys.h"
#include "python/native/log_notes.h"
#include "python/native/mr_ext.h"
#include "python/native/results.h"
#include "simm/batch.h"
#include "simm/simm.h"
#include "simm/trace.h"

namespace py = pybind11;

namespace simm::python {
namespace {

// Where the libsimm that this module uses lies.
std::string library_path() {
  Dl_info about{};
  if (::dladdr(reinterpret_cast<const void*>(&simm_version), &about) == 0) {
    throw std::runtime_error("the path of libsimm is not known");
  }
  return about.dli_fname;
}

void set_trace_parent(const std::string& trace_parent) {
  if (simm::set_trace_parent(trace_parent) != Status::ok) throw py::value_error(last_error());
}

}  // namespace
}  // namespace simm::python

PYBIND11_MODULE(_native, module) {
  module.doc() = "The native half of simm: see simm.kv.";
  simm::python::load_result_types();
  simm::python::bind_memory(module);
  simm::python::bind_followed_keys(module);
  simm::python::bind_connection(module);
  simm::python::bind_log(module);
  module.def("set_trace_parent", &simm::python::set_trace_parent, py::arg("trace_parent"));
  module.def("version", &simm_version, "Version of libsimm.");
  module.def("library_path", &simm::python::library_path, "The file of libsimm.");
  module.def("status_name", &simm_status_name, py::arg("code"), "\"timeout\" for -1002.");
}
