#include "daemon/tools/simmctl/interrupts.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>

namespace simm::ctl {
namespace {

volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t resized = 0;
// A signal between the look at the flags and poll() would be missed; its byte is not.
std::array<int, 2> wake_pipe = {-1, -1};

void wake() {
  const int saved = errno;
  const char byte = 0;
  [[maybe_unused]] const ssize_t full_is_fine = ::write(wake_pipe[1], &byte, 1);
  errno = saved;
}

void on_interrupt(int) {
  interrupted = 1;
  wake();
}

void on_resize(int) {
  resized = 1;
  wake();
}

bool take_resized() noexcept {
  const bool was = resized != 0;
  resized = 0;
  return was;
}

}  // namespace

// Ends system calls that wait: without SA_RESTART.
void watch_interrupts() {
  if (wake_pipe[0] < 0 && ::pipe2(wake_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    wake_pipe = {-1, -1};  // poll() passes over it; a signal is then seen at the end of the wait
  }
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = on_resize;
  ::sigaction(SIGWINCH, &action, nullptr);
}

bool is_interrupted() noexcept {
  return interrupted != 0;
}

Woken wait_for(double seconds, int input) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    if (interrupted != 0) return Woken::interrupted;
    if (take_resized()) return Woken::resized;
    const double left_ms = std::chrono::duration<double, std::milli>(end - Clock::now()).count();
    // A pipe or a terminal without a reader reports that unasked.
    std::array<pollfd, 3> ends = {pollfd{STDOUT_FILENO, 0, 0}, pollfd{wake_pipe[0], POLLIN, 0},
                                  pollfd{input, POLLIN, 0}};
    const int wait_ms = static_cast<int>(std::ceil(std::clamp(left_ms, 0.0, 1e9)));
    const int ready = ::poll(ends.data(), ends.size(), wait_ms);
    if (ready == 0) return Woken::time;
    if (ready < 0) continue;  // a signal
    if ((ends[0].revents & (POLLERR | POLLHUP)) != 0) return Woken::reader_gone;
    if ((ends[1].revents & POLLIN) != 0) {
      std::array<char, 64> bytes{};
      while (::read(wake_pipe[0], bytes.data(), bytes.size()) > 0) {
      }
      continue;
    }
    if (ends[2].revents != 0) return Woken::input;
  }
}

}  // namespace simm::ctl
