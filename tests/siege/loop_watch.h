// LoopWatch: for how long the data agents and the control thread of daemons were away from their
// loops: in one turn, or in one piece of control work and what stood before it. The time that a
// thread waited for a CPU does not count. Where a thread stood still, what others of its process
// waited for a CPU does not count either: it may have waited for what one of them held. What is
// left of standing still may be the kernel's, on a busy machine: that is told, and nobody is judged
// by it.
//
// Data threads count their turns, and those of more than 10 ms. A look at these counters each
// millisecond tells how long such a turn was at most, and the kernel tells how long the thread
// waited for a CPU meanwhile. The control thread is asked a question all the time that costs
// nothing; the answer comes when it is at its loop.
// Thread: the test's; it has threads of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/daemon_process.h"

namespace simm::siege {

// The longest time away, in microseconds, and of that thread.
struct Absence {
  std::string thread;
  std::uint64_t us = 0;
  std::uint64_t on_cpu_us = 0;  // of that; the rest it stood still
};
struct Absences {
  Absence data;
  Absence control;
  std::uint64_t asked = 0;  // questions that the control threads have answered
};

class LoopWatch {
public:
  using Daemons = std::vector<const test_support::DaemonProcess*>;
  // They live, and have all their threads, until it ends or they die.
  explicit LoopWatch(const Daemons& daemons);
  ~LoopWatch();
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;

  // The longest ones since the last call. What goes on now counts when it is over.
  [[nodiscard]] Absences take_longest();
  // No thread may work for longer in one turn, on any machine. What it stood still is told, and not
  // judged: on a busy machine the kernel itself waits. Instrumented code has more time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr std::uint64_t kTimes = 20;
#else
  static constexpr std::uint64_t kTimes = 1;
#endif
  static constexpr std::uint64_t kCpuUsMax = kTimes * 20'000;

private:
  class DataThread;

  void look_at_data_threads();
  void ask_control_thread(const std::string& socket, pid_t daemon);
  void note(Absence Absences::*of, const Absence& away);

  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  Absences longest_;
  std::vector<std::unique_ptr<DataThread>> data_threads_;
  std::vector<std::thread> threads_;
};

}  // namespace simm::siege
