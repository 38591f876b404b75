// QueuePairReaper: the threads that end the queue pairs of a device. Each call into the device may
// take seconds (QueuePair::destroy()), and a data agent can not wait.
//
// First every new queue pair is put into its error state, then they are destroyed. The oldest goes
// first, of the peer that keeps the fewest threads busy. One thread stays free for other peers: a
// peer whose cable is out costs each of its queue pairs seconds. When the device refuses to destroy
// a queue pair, the fence has not happened: the reaper says so, and tries again, later each time.
// Owned by a VerbsDevice, whose queue pairs are gone before it. Thread: submit(), want() and
// is_done by data agents, the rest by the owner; wait_for() also where a link ends with its agent.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/transport/rdma/device/work_bell.h"
#include "simm/expected.h"

namespace simm::transport {

// Threads of a device that end queue pairs; one fewer is at one peer's at a time.
inline constexpr std::uint32_t kEnderThreads = 4;
// So long a daemon that stops waits for a queue pair to end; then it goes on without.
inline constexpr std::uint64_t kEnderWaitMs = 10'000;

// What is told of a device's queue pairs. Without a log nothing is written.
struct QueuePairReaperReport {
  base::Log* log = nullptr;
  base::Counter refused;   // times that the device refused to destroy one
  base::Counter given_up;  // queue pairs that nobody waited for any longer
};

// The calls into the device: 0, or an errno.
struct QueuePairReaperCalls {
  int (*fail)(ibv_qp* queue_pair) noexcept;
  int (*destroy)(ibv_qp* queue_pair) noexcept;
};
[[nodiscard]] QueuePairReaperCalls queue_pair_reaper_calls() noexcept;

class QueuePairReaper {
public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The submitter's until it is done or given up; in place until then.
  struct Job {
    ibv_qp* queue_pair = nullptr;
    std::uint64_t peer = 0;  // whose it is; equal for queue pairs that share a path
    std::atomic<bool> is_done{false};

  private:
    friend class QueuePairReaper;
    std::atomic<bool> is_wanted_{false};
    TimePoint wanted_at_;
    // The reaper's, under its lock.
    Job* next_ = nullptr;
    bool has_failed_ = false;
    bool is_busy_ = false;
    bool is_given_up_ = false;
    std::uint32_t refusals_ = 0;
    TimePoint due_;
  };

  explicit QueuePairReaper(const QueuePairReaperCalls& calls = queue_pair_reaper_calls(),
                           std::chrono::milliseconds wait = std::chrono::milliseconds(kEnderWaitMs))
      : calls_(calls), wait_(wait) {}
  // Waits for calls that are under way, as the end of the process would.
  ~QueuePairReaper();
  QueuePairReaper(const QueuePairReaper&) = delete;
  QueuePairReaper& operator=(const QueuePairReaper&) = delete;

  // Once. `device`: for the log. Errors: out_of_memory (of descriptors or threads).
  Outcome start(std::string device, const QueuePairReaperReport& report);
  // Once for a job: its queue pair goes into the error state. No lock, no allocation.
  void submit(Job& job) noexcept;
  // Once, behind submit(): it is destroyed. No lock, no allocation.
  void want(Job& job) noexcept;
  // The kernel has destroyed all queue pairs of the device: one that can not be destroyed because
  // of that (EIO) has its fence. Any thread.
  void on_device_gone() noexcept { is_device_gone_.store(true, std::memory_order_release); }
  // Behind want(). False: the device did not destroy it in time, and the job is the reaper's now.
  [[nodiscard]] bool wait_for(std::unique_ptr<Job>& job) noexcept;

private:
  void work() noexcept;
  // The rest under the lock.
  void collect() noexcept;
  [[nodiscard]] Job* next_to_fail() noexcept;
  [[nodiscard]] Job* next_to_destroy(TimePoint now) noexcept;
  [[nodiscard]] std::size_t busy_with(std::uint64_t peer) const noexcept;
  [[nodiscard]] base::TimeNs wait_ns(TimePoint now) const noexcept;
  void on_destroyed(Job& job) noexcept;
  void on_refused(Job& job, int error) noexcept;

  const QueuePairReaperCalls calls_;
  const std::chrono::milliseconds wait_;
  std::string device_;
  QueuePairReaperReport report_;
  WorkBell bell_;
  std::atomic<Job*> newest_{nullptr};  // a list; a thread takes all of it at a time
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_device_gone_{false};
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  Job* oldest_ = nullptr;  // a list in the order of submit()
};

}  // namespace simm::transport
