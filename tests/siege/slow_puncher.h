// SlowPuncher: processes that punch holes into a memory file, as slowly as the kernel lets them.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>

namespace simm::siege {

// A process that does one thing again and again until it is ended.
class Forever {
public:
  explicit Forever(const std::function<void()>& turn) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::alarm(120);
      for (;;) turn();
    }
  }
  ~Forever() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Forever(const Forever&) = delete;
  Forever& operator=(const Forever&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

private:
  pid_t pid_;
};

// Fills the file and punches it out on the last CPU, at the lowest priority, beside a busy process.
class SlowPuncher {
public:
  static constexpr std::uint64_t kBytes = 256ull << 20;  // of the file
  static constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

  explicit SlowPuncher(int file) : file_(file) {}

private:
  static void stay_on_one_cpu() {
    static bool is_done = false;
    if (is_done) return;
    is_done = true;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN) - 1), &cpus);
    (void)::sched_setaffinity(0, sizeof cpus, &cpus);
  }
  static void be_slow() {
    static bool is_done = false;
    if (is_done) return;
    is_done = true;
    const sched_param none{};
    (void)::sched_setscheduler(0, SCHED_IDLE, &none);
  }

  const int file_;
  const Forever puncher_{[this] {
    stay_on_one_cpu();
    be_slow();
    (void)!::fallocate(file_, 0, 0, kBytes);
    (void)!::fallocate(file_, kPunch, 0, kBytes);
  }};
  // Ends first, and then the other one is fast.
  const Forever hog_{[] {
    stay_on_one_cpu();
    static bool is_nice = false;
    if (!is_nice) is_nice = ::setpriority(PRIO_PROCESS, 0, 10) == 0;
  }};
};

}  // namespace simm::siege
