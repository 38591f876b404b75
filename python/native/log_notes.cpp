#include "python/native/log_notes.h"

#include <pthread.h>

#include <new>
#include <utility>

#include "python/native/gil_release.h"

namespace simm::python {

namespace py = pybind11;

LogNotes& LogNotes::instance() {
  static auto* const notes = new LogNotes;  // its object must not go after the interpreter
  return *notes;
}

LogNotes::LogNotes() {
  (void)::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                         [] {
                           // The notes are the parent's.
                           instance().notes_.clear();
                           instance().dropped_ = 0;
                           instance().has_notes_ = false;
                           instance().mutex_.unlock();
                         });
}

void LogNotes::set(py::object sink) {
  const bool is_wanted = !sink.is_none();
  {
    // It waits for a thread in keep().
    const GilRelease released;
    set_log(is_wanted ? &LogNotes::keep : nullptr, this);
  }
  sink_ = is_wanted ? std::move(sink) : py::object();
  if (is_wanted) return;
  const std::lock_guard lock(mutex_);
  notes_.clear();
  has_notes_ = false;
}

void LogNotes::keep(void* self, LogLevel level, const char* text) noexcept {
  auto& notes = *static_cast<LogNotes*>(self);
  const std::lock_guard lock(notes.mutex_);
  notes.has_notes_ = true;
  try {
    if (notes.notes_.size() < kNotesMax) {
      notes.notes_.push_back({level, text});
      return;
    }
  } catch (const std::bad_alloc&) {  // counted, as those that find no place
  }
  ++notes.dropped_;
}

bool LogNotes::take(Note& note) {
  const std::lock_guard lock(mutex_);
  if (!notes_.empty()) {
    note = std::move(notes_.front());
    notes_.pop_front();
    return true;
  }
  has_notes_ = false;
  const std::uint64_t dropped = std::exchange(dropped_, 0);
  if (dropped == 0) return false;
  note = {LogLevel::warning, std::to_string(dropped) + " further messages had no place"};
  return true;
}

void LogNotes::tell_all() {
  // Else the interpreter would call a signal's handler inside the sink, where its error is lost.
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  const py::object sink = sink_;  // it may call set()
  Note note;
  while (sink && take(note)) {
    try {
      sink(static_cast<int>(note.level), note.text);
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_Exception)) throw;
      error.discard_as_unraisable("simm: a message for the log");
    }
  }
}

void bind_log(py::module_& module) {
  module.def(
      "set_log", [](py::object sink) { LogNotes::instance().set(std::move(sink)); },
      py::arg("sink"));
}

}  // namespace simm::python
