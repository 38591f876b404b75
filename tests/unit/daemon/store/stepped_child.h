// SteppedChild: runs a function in a child process one instruction at a time. The child shares what
// is mapped MAP_SHARED with this process, which may look at it between any two instructions.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>

namespace simm::store::testing {

class SteppedChild {
public:
  // The child waits for its first step.
  explicit SteppedChild(const std::function<void()>& function) {
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(2);
      ::raise(SIGSTOP);
      function();
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, 0) == pid_);
    REQUIRE_MESSAGE(WIFSTOPPED(status), "ptrace is not allowed here");
    // Whatever a test does, the child does not outlive it.
    REQUIRE(::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_EXITKILL) == 0);
  }
  ~SteppedChild() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  SteppedChild(const SteppedChild&) = delete;
  SteppedChild& operator=(const SteppedChild&) = delete;

  // One instruction; false when there was none left.
  bool step() {
    REQUIRE(::ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) == 0);
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, 0) == pid_);
    ++steps_;
    if (WIFSTOPPED(status)) {
      REQUIRE(WSTOPSIG(status) == SIGTRAP);
      return true;
    }
    pid_ = -1;
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    return false;
  }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

private:
  pid_t pid_ = -1;
  std::uint64_t steps_ = 0;
};

}  // namespace simm::store::testing
