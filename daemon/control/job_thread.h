// JobThread: does one after the other what may take long and may not be done by the control thread.
// There are:
//   registrar  maps and unmaps client memory that came as a file
//   adopter    asks the helper: for the files behind mappings of clients, and for workers
//   closers    one of each tenant, see closers.h
// Each tenant has a queue of its own, with a limit of its own, and a turn is one job. So whoever
// has one job waits for one of each other tenant, however many of these they have. Thread: submit()
// from control; jobs run on the thread of this object.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace simm::control {

class JobThread {
public:
  using Job = std::function<void()>;

  // `name`: of the thread, at most 15 characters, static. `jobs_max`: that wait, of each tenant.
  JobThread(const char* name, std::size_t jobs_max) : name_(name), jobs_max_(jobs_max) {}
  ~JobThread() { stop(); }
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  void start();
  // Runs what is queued, then ends. Idempotent.
  void stop();

  // `tenant`: whose turn it takes, a TenantId; 0 for jobs of the daemon itself. False: the tenant's
  // queue is full, or stop() was called.
  [[nodiscard]] bool submit(Job job, std::uint64_t tenant = 0);
  // Frees resources: always accepted while the thread lives, also beyond the limit.
  void submit_release(Job job, std::uint64_t tenant = 0);

private:
  using Queues = std::map<std::uint64_t, std::deque<Job>>;

  void run();
  // Both under the lock.
  void enqueue(Job job, std::uint64_t tenant);
  [[nodiscard]] Job take_next();

  const char* const name_;
  const std::size_t jobs_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Queues queues_;                    // by tenant, none is empty
  std::deque<std::uint64_t> turns_;  // the tenants of queues_, the next one in front
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace simm::control
