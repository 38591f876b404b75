// Commands that go on until somebody interrupts them, as by Ctrl-C. Thread: the main thread.
#pragma once

namespace simm::ctl {

// From now on an interrupt ends sleep_for(), and not the program.
void watch_interrupts();
[[nodiscard]] bool is_interrupted() noexcept;
void sleep_for(double seconds);

}  // namespace simm::ctl
