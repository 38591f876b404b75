#include "daemon/transport/rdma/device/verbs_ender.h"

#include <pthread.h>

#include <chrono>
#include <system_error>

#include "simm/check.h"

namespace simm::transport {

VerbsEnder::~VerbsEnder() {
  if (!thread_.joinable()) return;
  is_stopping_.store(true, std::memory_order_release);
  bell_.ring();
  thread_.join();
  SIMM_CHECK(newest_.load() == nullptr);
}

Outcome VerbsEnder::start() {
  if (!bell_.is_usable()) return Error{Status::out_of_memory, "no descriptor for queue pairs"};
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    return Error{Status::out_of_memory, std::string("no thread for queue pairs: ") + error.what()};
  }
  ::pthread_setname_np(thread_.native_handle(), "simm-qp-end");
  return Done{};
}

void VerbsEnder::submit(Job& job) noexcept {
  job.next = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(job.next, &job, std::memory_order_acq_rel)) {
  }
  bell_.ring();
}

// Not by notification: who is told may free the job before he who tells has finished.
void VerbsEnder::wait_for(const Job& job) noexcept {
  while (!job.is_done.load(std::memory_order_acquire)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void VerbsEnder::work() noexcept {
  while (!is_stopping_.load(std::memory_order_acquire)) {
    bell_.answer();
    Job* job = newest_.exchange(nullptr, std::memory_order_acq_rel);
    while (job != nullptr) {
      Job* const next = job->next;
      // It can not fail but for our mistake: nothing refers to a queue pair. To go on would be to
      // believe in a fence that is none.
      SIMM_CHECK(ibv_destroy_qp(job->queue_pair) == 0);
      job->is_done.store(true, std::memory_order_release);  // and is its submitter's again
      job = next;
    }
    if (newest_.load(std::memory_order_acquire) == nullptr) bell_.wait(base::kNoDeadline);
  }
}

}  // namespace simm::transport
