#include "daemon/control/job_thread.h"

#include <pthread.h>

#include <utility>

namespace simm::control {

void JobThread::start() {
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), name_);
}

void JobThread::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool JobThread::submit(Job job, std::uint64_t tenant) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto queue = queues_.find(tenant);
    const std::size_t waiting = queue == queues_.end() ? 0 : queue->second.size();
    if (stopping_ || waiting >= jobs_max_) return false;
    enqueue(std::move(job), tenant);
  }
  changed_.notify_one();
  return true;
}

void JobThread::submit_release(Job job, std::uint64_t tenant) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!stopping_) {
      enqueue(std::move(job), tenant);
      changed_.notify_one();
      return;
    }
  }
  job();  // the thread is ending: whoever stops the daemon frees the rest
}

void JobThread::enqueue(Job job, std::uint64_t tenant) {
  const auto [queue, is_first] = queues_.try_emplace(tenant);
  if (is_first) turns_.push_back(tenant);
  queue->second.push_back(std::move(job));
}

JobThread::Job JobThread::take_next() {
  const auto queue = queues_.find(turns_.front());
  turns_.pop_front();
  Job job = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) {
    queues_.erase(queue);
  } else {
    turns_.push_back(queue->first);
  }
  return job;
}

void JobThread::run() {
  while (true) {
    Job job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !turns_.empty(); });
      if (turns_.empty()) return;
      job = take_next();
    }
    job();
  }
}

}  // namespace simm::control
