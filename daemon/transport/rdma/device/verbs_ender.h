// VerbsEnder: the thread that destroys the queue pairs of a device, since that may take seconds
// (QueuePair::destroy()), and a data agent can not wait.
// Owned by a VerbsDevice, whose queue pairs are gone before it. Thread: submit() and is_done by
// data agents, the rest by the owner.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <thread>

#include "daemon/transport/rdma/device/work_bell.h"
#include "simm/expected.h"

namespace simm::transport {

class VerbsEnder {
public:
  // The submitter's until it is done; in place until then.
  struct Job {
    ibv_qp* queue_pair = nullptr;
    std::atomic<bool> is_done{false};
    Job* next = nullptr;  // the ender's
  };

  VerbsEnder() = default;
  ~VerbsEnder();
  VerbsEnder(const VerbsEnder&) = delete;
  VerbsEnder& operator=(const VerbsEnder&) = delete;

  // Once. Errors: out_of_memory (of descriptors or threads).
  Outcome start();
  // No lock, no allocation.
  void submit(Job& job) noexcept;
  static void wait_for(const Job& job) noexcept;

private:
  void work() noexcept;

  WorkBell bell_;
  std::atomic<Job*> newest_{nullptr};  // a list; the thread takes all of it at a time
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace simm::transport
