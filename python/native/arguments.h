// What Python callers pass as numbers and lists, as values: one rule for every argument, and errors
// that name it. An int, or what has __index__ (numpy's integers); nothing that would be rounded.
// Thread: holds the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

namespace simm::python {

// TypeError: no whole number. ValueError: not in 0 .. `most`. Both name the argument, its value and
// what would do; `unit` says what is counted.
std::uint64_t whole_number(pybind11::handle value, const char* name, std::uint64_t most,
                           const char* unit);

std::uint32_t milliseconds(pybind11::handle value, const char* name);

// A copy of a list's entries, so that they stay while other threads change the list. TypeError: not
// iterable, or a text. What the iteration itself raises goes on to the caller.
pybind11::tuple entries_of(const pybind11::object& list, const char* name);

std::string type_of(PyObject* object);

}  // namespace simm::python
