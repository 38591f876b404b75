// RegistrarThread: does what may take long and may not be done by the control thread: opening,
// mapping and unmapping client memory. Jobs run one after the other; the control thread has at most
// one job of each session under way, so nobody can fill the queue for others.
// Thread: submit() from control; jobs run on the registrar thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace simm::control {

class RegistrarThread {
public:
  using Job = std::function<void()>;

  explicit RegistrarThread(std::size_t jobs_max) : jobs_max_(jobs_max) {}
  ~RegistrarThread() { stop(); }
  RegistrarThread(const RegistrarThread&) = delete;
  RegistrarThread& operator=(const RegistrarThread&) = delete;

  void start();
  // Runs what is queued, then ends. Idempotent.
  void stop();

  // False: the queue is full, or stop() was called.
  [[nodiscard]] bool submit(Job job);
  // Frees resources: always accepted while the thread lives, also beyond the limit.
  void submit_release(Job job);

private:
  void run();

  const std::size_t jobs_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace simm::control
