#include "daemon/tools/simmctl/interrupts.h"

#include <cmath>
#include <csignal>
#include <ctime>

namespace simm::ctl {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) {
  interrupted = 1;
}

}  // namespace

// Ends the sleep: without SA_RESTART.
void watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool is_interrupted() noexcept {
  return interrupted != 0;
}

void sleep_for(double seconds) {
  timespec left{};
  left.tv_sec = static_cast<time_t>(seconds);
  left.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  while (interrupted == 0 && ::nanosleep(&left, &left) != 0) {
  }
}

}  // namespace simm::ctl
