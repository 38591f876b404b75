#include "daemon/transport/rdma/device/queue_pair_reaper.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "simm/check.h"

namespace simm::transport {
namespace {

using std::chrono::milliseconds;

// Behind a refusal: doubled with each, up to the second.
constexpr milliseconds kRetryFirst{10};
constexpr milliseconds kRetryMax{1000};
constexpr std::uint32_t kDoublingsMax = 7;

int put_into_error(ibv_qp* queue_pair) noexcept {
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  return ibv_modify_qp(queue_pair, &error, IBV_QP_STATE);
}

int destroy_queue_pair(ibv_qp* queue_pair) noexcept {
  return ibv_destroy_qp(queue_pair);
}

}  // namespace

QueuePairReaperCalls queue_pair_reaper_calls() noexcept {
  return {put_into_error, destroy_queue_pair};
}

QueuePairReaper::~QueuePairReaper() {
  is_stopping_.store(true, std::memory_order_release);
  bell_.ring();
  for (std::thread& thread : threads_) thread.join();
  collect();
  while (oldest_ != nullptr) {
    Job* const job = std::exchange(oldest_, oldest_->next_);
    SIMM_CHECK(job->is_given_up_);  // the others have owners, who are gone
    delete job;
  }
}

Outcome QueuePairReaper::start(std::string device, const QueuePairReaperReport& report) {
  if (!bell_.is_usable()) return Error{Status::out_of_memory, "no descriptor for queue pairs"};
  device_ = std::move(device);
  report_ = report;
  const std::scoped_lock lock(mutex_);  // they count each other
  for (std::uint32_t i = 0; i < kEnderThreads; ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      if (!threads_.empty()) break;
      return Error{Status::out_of_memory,
                   std::string("no thread for queue pairs: ") + error.what()};
    }
    ::pthread_setname_np(threads_.back().native_handle(), "simm-qp-end");
  }
  return Done{};
}

void QueuePairReaper::submit(Job& job) noexcept {
  job.next_ = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(job.next_, &job, std::memory_order_acq_rel)) {
  }
  bell_.ring();
}

void QueuePairReaper::want(Job& job) noexcept {
  job.wanted_at_ = std::chrono::steady_clock::now();
  job.is_wanted_.store(true, std::memory_order_release);
  bell_.ring();
}

// Not by notification: who is told may free the job before he who tells has finished.
bool QueuePairReaper::wait_for(std::unique_ptr<Job>& job) noexcept {
  while (!job->is_done.load(std::memory_order_acquire)) {
    if (std::chrono::steady_clock::now() < job->wanted_at_ + wait_) {
      std::this_thread::sleep_for(milliseconds(1));
      continue;
    }
    const std::scoped_lock lock(mutex_);
    if (job->is_done.load(std::memory_order_acquire)) break;
    job->is_given_up_ = true;
    static_cast<void>(job.release());
    report_.given_up.add_shared();
    if (report_.log != nullptr) {
      report_.log->error("rdma", "a queue pair did not end in time; nobody waits for it now",
                         {{"device", device_}});
    }
    return false;
  }
  return true;
}

void QueuePairReaper::work() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    bell_.answer();
    if (is_stopping_.load(std::memory_order_acquire)) break;
    collect();
    const TimePoint now = std::chrono::steady_clock::now();
    Job* const failing = next_to_fail();
    Job* const job = failing != nullptr ? failing : next_to_destroy(now);
    if (job == nullptr) {
      const base::TimeNs limit_ns = wait_ns(now);
      lock.unlock();
      bell_.wait(limit_ns);
      lock.lock();
      continue;
    }
    job->is_busy_ = true;
    bell_.ring();  // another thread looks for the next one
    lock.unlock();
    const int error = (failing != nullptr ? calls_.fail : calls_.destroy)(job->queue_pair);
    lock.lock();
    job->is_busy_ = false;
    if (failing != nullptr) {
      job->has_failed_ = true;  // or its device is gone: then nothing moves either
    } else if (error == 0 || (error == EIO && is_device_gone_.load(std::memory_order_acquire))) {
      on_destroyed(*job);
    } else {
      on_refused(*job, error);
    }
  }
  bell_.ring();  // it wakes one thread at least, not all
}

void QueuePairReaper::collect() noexcept {
  Job* job = newest_.exchange(nullptr, std::memory_order_acq_rel);
  Job* in_order = nullptr;
  while (job != nullptr) {
    Job* const older = job->next_;
    job->next_ = std::exchange(in_order, job);
    job = older;
  }
  Job** end = &oldest_;
  while (*end != nullptr) end = &(*end)->next_;
  *end = in_order;
}

QueuePairReaper::Job* QueuePairReaper::next_to_fail() noexcept {
  for (Job* job = oldest_; job != nullptr; job = job->next_) {
    if (!job->has_failed_ && !job->is_busy_) return job;
  }
  return nullptr;
}

QueuePairReaper::Job* QueuePairReaper::next_to_destroy(TimePoint now) noexcept {
  Job* best = nullptr;
  // One thread is left to the others; of a single thread nothing can be.
  std::size_t best_busy = std::max<std::size_t>(threads_.size() - 1, 1);
  for (Job* job = oldest_; job != nullptr; job = job->next_) {
    const bool is_ready = job->has_failed_ && !job->is_busy_ && job->due_ <= now &&
                          job->is_wanted_.load(std::memory_order_acquire);
    if (!is_ready) continue;
    const std::size_t busy = busy_with(job->peer);
    if (busy >= best_busy) continue;
    best = job;
    best_busy = busy;
  }
  return best;
}

std::size_t QueuePairReaper::busy_with(std::uint64_t peer) const noexcept {
  std::size_t busy = 0;
  for (const Job* job = oldest_; job != nullptr; job = job->next_) {
    if (job->is_busy_ && job->peer == peer) ++busy;
  }
  return busy;
}

// Until the next retry.
base::TimeNs QueuePairReaper::wait_ns(TimePoint now) const noexcept {
  base::TimeNs least = base::kNoDeadline;
  for (const Job* job = oldest_; job != nullptr; job = job->next_) {
    if (job->is_busy_ || job->refusals_ == 0 || job->due_ <= now) continue;
    const auto left = std::chrono::nanoseconds(job->due_ - now).count();
    least = std::min(least, static_cast<base::TimeNs>(left));
  }
  return least;
}

void QueuePairReaper::on_destroyed(Job& job) noexcept {
  Job** at = &oldest_;
  while (*at != &job) at = &(*at)->next_;
  *at = job.next_;
  if (job.is_given_up_) {
    delete &job;
  } else {
    job.is_done.store(true, std::memory_order_release);  // and is its submitter's again
  }
}

// To go on as if it were destroyed would be to believe in a fence that is none.
void QueuePairReaper::on_refused(Job& job, int error) noexcept {
  const milliseconds pause = kRetryFirst * (1u << std::min(job.refusals_, kDoublingsMax));
  job.due_ = std::chrono::steady_clock::now() + std::min(pause, kRetryMax);
  report_.refused.add_shared();
  if (job.refusals_++ > 0 || report_.log == nullptr) return;
  report_.log->error("rdma", "the device does not destroy a queue pair; it is tried again",
                     {{"device", device_}, {"errno", static_cast<std::uint64_t>(error)}});
}

}  // namespace simm::transport
