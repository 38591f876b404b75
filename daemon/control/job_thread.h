// JobThread: does one after the other what may take long and may not be done by the control thread.
// There are:
//   registrar  opens, maps and unmaps client memory
//   closers    one of each tenant, see closers.h
// The control thread has at most one job of each session under way on each, so nobody can fill the
// queue for others. Thread: submit() from control; jobs run on the thread of this object.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace simm::control {

class JobThread {
public:
  using Job = std::function<void()>;

  // `name`: of the thread, at most 15 characters, static.
  JobThread(const char* name, std::size_t jobs_max) : name_(name), jobs_max_(jobs_max) {}
  ~JobThread() { stop(); }
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  void start();
  // Runs what is queued, then ends. Idempotent.
  void stop();

  // False: the queue is full, or stop() was called.
  [[nodiscard]] bool submit(Job job);
  // Frees resources: always accepted while the thread lives, also beyond the limit.
  void submit_release(Job job);

private:
  void run();

  const char* const name_;
  const std::size_t jobs_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace simm::control
