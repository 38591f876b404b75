#include "tests/hostile/ipc/stepped_child.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simm/check.h"

namespace stepped_child {
namespace {

// The child says here that its action is over; the parent looks after each step.
volatile std::uint32_t* finished_word() {
  static auto* const word = [] {
    void* const page =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(page != MAP_FAILED);
    return static_cast<volatile std::uint32_t*>(page);
  }();
  return word;
}

bool wait_for_stop(pid_t child) {
  int status = 0;
  SIMM_CHECK(::waitpid(child, &status, 0) == child);
  return WIFSTOPPED(status);
}

void kill_and_reap(pid_t child) {
  ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) == child && !WIFSIGNALED(status) && !WIFEXITED(status)) {
  }
}

}  // namespace

Run run_and_kill(const std::function<void()>& action, std::uint64_t steps_max,
                 const std::function<void()>& in_parent) {
  volatile std::uint32_t* const finished = finished_word();
  *finished = 0;
  const pid_t child = ::fork();
  SIMM_CHECK(child >= 0);
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    action();
    *finished = 1;
    for (;;) ::pause();
  }
  in_parent();
  Run run;
  if (!wait_for_stop(child)) return run;  // ptrace is not allowed: the child has left
  while (run.steps < steps_max && *finished == 0) {
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    if (!wait_for_stop(child)) return run;
    ++run.steps;
  }
  run.finished = *finished != 0;
  kill_and_reap(child);
  return run;
}

bool can_step() {
  return run_and_kill([] {}, 1'000'000, [] {}).finished;
}

}  // namespace stepped_child
