// Runs the body of a measurement in worker processes and threads, and collects their samples.
//
// Each worker process is forked, so a measurement always meets a fresh session, and the waiting
// mode of one case never reaches the next. A worker that fails or dies ends the measurement with an
// error that names it; nobody waits for it at the start line.
// Thread: run() from the main thread of a process without other threads (it forks).
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "simm/expected.h"

namespace simm::bench {

struct WorkerPoolOptions {
  unsigned processes = 1;
  unsigned threads = 1;     // of each process
  std::size_t samples = 0;  // the most that a worker records
  bool pinned = true;       // by worker_cpu()
};

class Worker {
public:
  Worker(unsigned index, pthread_barrier_t& start_line, std::span<std::uint64_t> samples)
      : index_(index), start_line_(&start_line), samples_(samples) {}

  [[nodiscard]] unsigned index() const noexcept { return index_; }
  // Waits until every worker is here. All workers of a body call it equally often.
  void line_up() { pthread_barrier_wait(start_line_); }
  // Samples beyond the most that was asked for are dropped.
  void record(std::uint64_t sample) {
    if (count_ < samples_.size()) samples_[count_++] = sample;
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

private:
  unsigned index_;
  pthread_barrier_t* start_line_;
  std::span<std::uint64_t> samples_;
  std::size_t count_ = 0;
};

using WorkerBody = std::function<Outcome(Worker&)>;

// The samples of each worker, in the order they were recorded.
Expected<std::vector<std::vector<std::uint64_t>>> run_workers(const WorkerPoolOptions& options,
                                                              const WorkerBody& body);

// Microseconds at a rank between 0 and 1 of all nanoseconds that all workers recorded.
Expected<double> measured_us(const WorkerPoolOptions& options, double rank, const WorkerBody& body);

// The value at a rank between 0 and 1; sorts `samples`. Zero of nothing.
std::uint64_t sample_at(std::vector<std::uint64_t>& samples, double rank);

// All samples of all workers in one.
std::vector<std::uint64_t> merge(const std::vector<std::vector<std::uint64_t>>& samples);

}  // namespace simm::bench
