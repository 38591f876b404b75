// LogNotes: what libsimm says (simm/log.h), for Python's logging. libsimm speaks in threads that do
// not hold the interpreter's lock, perhaps while the interpreter ends. So a note is kept here until
// a call of the package is back with the lock, and is told then.
// One for the process, which never ends. Thread: any; set() and tell() with the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "simm/log.h"

namespace simm::python {

class LogNotes {
public:
  static LogNotes& instance();

  // `sink(level, text)` is called for each note from now on; None: for none. A note is told once,
  // in the order in which libsimm said them.
  void set(pybind11::object sink);
  // At the end of a call. Throws what a signal's handler raises; an error of the sink is printed.
  void tell() {
    if (has_notes_.load(std::memory_order_relaxed)) tell_all();
  }

private:
  static constexpr std::size_t kNotesMax = 32;  // further ones are counted
  struct Note {
    LogLevel level = LogLevel::info;
    std::string text;
  };

  LogNotes();
  static void keep(void* self, LogLevel level, const char* text) noexcept;
  bool take(Note& note);
  void tell_all();

  std::atomic<bool> has_notes_{false};
  std::mutex mutex_;
  std::deque<Note> notes_;
  std::uint64_t dropped_ = 0;
  pybind11::object sink_;
};

void bind_log(pybind11::module_& module);

}  // namespace simm::python
