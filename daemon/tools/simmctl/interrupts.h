// Commands that go on until somebody interrupts them, as by Ctrl-C, or nobody reads them any more.
// Thread: the main thread.
#pragma once

#include <cstdint>

namespace simm::ctl {

// From now on an interrupt ends wait_for(), and not the program; so does another size of the
// terminal.
void watch_interrupts();
[[nodiscard]] bool is_interrupted() noexcept;

enum class Woken : std::uint8_t {
  time,         // it is over
  input,        // there is something to read
  resized,      // the terminal has another size
  interrupted,  // for good
  reader_gone,  // of standard output
};
// At the longest so long; ends at once for each of the other reasons. `input`: a descriptor; -1:
// nobody types.
Woken wait_for(double seconds, int input = -1);

}  // namespace simm::ctl
