#include "daemon/control/job_thread.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace simm::control {

JobThread::JobThread(const char* name, std::size_t jobs_max) : name_(name), jobs_max_(jobs_max) {
  workers_.push_back(std::make_unique<Worker>(0));
}

void JobThread::start(std::span<const std::uint64_t> tenants) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::uint64_t tenant : tenants) workers_.push_back(std::make_unique<Worker>(tenant));
  for (const auto& worker : workers_) {
    worker->thread = std::thread([this, &worker = *worker] { run(worker); });
    ::pthread_setname_np(worker->thread.native_handle(), name_);
  }
}

void JobThread::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  for (const auto& worker : workers_) worker->changed.notify_one();
  for (const auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

bool JobThread::submit(Job job, std::uint64_t tenant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Worker& worker = worker_of(tenant);
  const auto queue = worker.queues.find(tenant);
  const std::size_t waiting = queue == worker.queues.end() ? 0 : queue->second.size();
  if (stopping_ || waiting >= jobs_max_) return false;
  enqueue(worker, std::move(job), tenant);
  return true;
}

void JobThread::submit_release(Job job, std::uint64_t tenant) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!stopping_) return enqueue(worker_of(tenant), std::move(job), tenant);
  }
  job();  // the threads are ending: whoever stops the daemon frees the rest
}

bool JobThread::is_stopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

JobThread::Worker& JobThread::worker_of(std::uint64_t tenant) {
  const auto own = std::find_if(workers_.begin() + 1, workers_.end(),
                                [&](const auto& worker) { return worker->tenant == tenant; });
  return own == workers_.end() ? *workers_.front() : **own;
}

void JobThread::enqueue(Worker& worker, Job job, std::uint64_t tenant) {
  const auto [queue, is_first] = worker.queues.try_emplace(tenant);
  if (is_first) worker.turns.push_back(tenant);
  queue->second.push_back(std::move(job));
  worker.changed.notify_one();
}

JobThread::Job JobThread::take_next(Worker& worker) {
  const auto queue = worker.queues.find(worker.turns.front());
  worker.turns.pop_front();
  Job job = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) {
    worker.queues.erase(queue);
  } else {
    worker.turns.push_back(queue->first);
  }
  return job;
}

void JobThread::run(Worker& worker) {
  while (true) {
    Job job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      worker.changed.wait(lock, [&] { return stopping_ || !worker.turns.empty(); });
      if (worker.turns.empty()) return;
      job = take_next(worker);
    }
    job();
  }
}

}  // namespace simm::control
