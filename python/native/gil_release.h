// GilRelease: gives the interpreter's lock up for a scope, and takes it again at the end.
//
// A thread that comes back while the interpreter shuts down never gets the lock: CPython ends such
// a thread by unwinding it, which would run destructors that touch Python objects. It is put to
// sleep instead, and ends with the process.
// Thread: one that holds the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

namespace simm::python {

class GilRelease {
public:
  GilRelease() noexcept : state_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {  // only that can come; it has no object that a reference could be bound to
      for (;;) ::pause();
    }
  }

private:
  PyThreadState* state_;
};

}  // namespace simm::python
