// JobThread: does one after the other what may take long and may not be done by the control thread.
// There are:
//   registrar  maps and unmaps client memory that came as a file
//   adopter    asks the helper: for the files behind mappings of clients, and for workers
//   closers    one of each tenant, and as many sealers, see closers.h
//   queuepairs makes and connects queue pairs; its tenants are the RDMA ports, a thread each
// Each tenant has a queue of its own, with a limit of its own, and a turn is one job. So whoever
// has one job waits for one of each other tenant, however many of these they have. The registrar
// of a daemon with several tenants has a thread for each: to seal or unmap a file waits for a punch
// into the file, for as long as its owner likes. Thread: submit() from control; jobs run on the
// threads of this object, those of one tenant on one of them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace simm::control {

class JobThread {
public:
  using Job = std::function<void()>;

  // `name`: of the thread, at most 15 characters, static. `jobs_max`: that wait, of each tenant.
  JobThread(const char* name, std::size_t jobs_max);
  ~JobThread() { stop(); }
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  // One thread, and one more for each of `tenants`, who then waits for no other tenant.
  void start(std::span<const std::uint64_t> tenants = {});
  // Runs what is queued, then ends. Idempotent.
  void stop();

  // `tenant`: whose turn it takes, a TenantId; 0 for jobs of the daemon itself. False: the tenant's
  // queue is full, or stop() was called.
  [[nodiscard]] bool submit(Job job, std::uint64_t tenant = 0);
  // Frees resources: always accepted while the thread lives, also beyond the limit.
  void submit_release(Job job, std::uint64_t tenant = 0);

  // Jobs of submit_release() are done at once from now on, by who submits them.
  [[nodiscard]] bool is_stopping();

private:
  struct Worker {
    explicit Worker(std::uint64_t only) : tenant(only) {}
    const std::uint64_t tenant;  // whose jobs it has; 0: of everybody without a thread of his own
    std::condition_variable changed;
    std::map<std::uint64_t, std::deque<Job>> queues;  // by tenant, none is empty
    std::deque<std::uint64_t> turns;                  // the tenants of `queues`, next one in front
    std::thread thread;
  };

  void run(Worker& worker);
  // All under the lock.
  [[nodiscard]] Worker& worker_of(std::uint64_t tenant);
  static void enqueue(Worker& worker, Job job, std::uint64_t tenant);
  [[nodiscard]] static Job take_next(Worker& worker);

  const char* const name_;
  const std::size_t jobs_max_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> workers_;  // the first has no tenant; fixed by start()
  bool stopping_ = false;
};

}  // namespace simm::control
