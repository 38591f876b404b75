#include "daemon/tools/simm-bench/worker_pool.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/process_group.h"
#include "daemon/tools/simm-bench/shared_array.h"

namespace simm::bench {
namespace {

// Why a worker failed.
struct Failure {
  Status status;  // ok: it did not
  char text[500];
};

// What all workers share.
struct Field {
  const WorkerPoolOptions& options;
  const WorkerBody& body;
  SharedArray<pthread_barrier_t> start_line;
  SharedArray<std::size_t> counts;
  SharedArray<Failure> failures;
  SharedArray<std::uint64_t> samples;
};

// Ends the process when the body fails: the others may wait at the start line for this worker.
void run_worker(Field& field, unsigned index) {
  if (field.options.pinned) pin_this_thread(worker_cpu(index));
  Worker worker(index, field.start_line[0],
                field.samples.part(index * field.options.samples, field.options.samples));
  const Outcome outcome = field.body(worker);
  field.counts[index] = worker.count();
  if (outcome) return;
  Failure& failure = field.failures[index];
  std::snprintf(failure.text, sizeof failure.text, "worker %u: %s", index,
                outcome.error().context.c_str());
  failure.status = outcome.status();
  _exit(1);
}

Outcome run_process(Field& field, unsigned process) {
  std::vector<std::thread> threads;
  for (unsigned thread = 1; thread < field.options.threads; ++thread) {
    threads.emplace_back(
        [&field, process, thread] { run_worker(field, process * field.options.threads + thread); });
  }
  run_worker(field, process * field.options.threads);
  for (std::thread& thread : threads) thread.join();
  return Done{};
}

}  // namespace

Expected<std::vector<std::vector<std::uint64_t>>> run_workers(const WorkerPoolOptions& options,
                                                              const WorkerBody& body) {
  const unsigned workers = options.processes * options.threads;
  Field field{options,
              body,
              SharedArray<pthread_barrier_t>(1),
              SharedArray<std::size_t>(workers),
              SharedArray<Failure>(workers),
              SharedArray<std::uint64_t>(workers * options.samples)};
  init_shared_barrier(field.start_line[0], workers);
  ProcessGroup group;
  for (unsigned process = 0; process < options.processes; ++process) {
    const Outcome forked = group.fork_child([&] { return run_process(field, process); });
    if (!forked) return forked.error();
  }
  const Outcome ended = group.wait([] {});
  for (unsigned index = 0; !ended && index < workers; ++index) {
    const Failure& failure = field.failures[index];
    if (failure.status != Status::ok) return Error{failure.status, failure.text};
  }
  if (!ended) return ended.error();
  std::vector<std::vector<std::uint64_t>> results;
  for (unsigned index = 0; index < workers; ++index) {
    const auto part = field.samples.part(index * options.samples, field.counts[index]);
    results.emplace_back(part.begin(), part.end());
  }
  return results;
}

Expected<double> measured_us(const WorkerPoolOptions& options, double rank,
                             const WorkerBody& body) {
  const auto samples = run_workers(options, body);
  if (!samples) return samples.error();
  std::vector<std::uint64_t> all = merge(*samples);
  return static_cast<double>(sample_at(all, rank)) / 1e3;
}

std::uint64_t sample_at(std::vector<std::uint64_t>& samples, double rank) {
  if (samples.empty()) return 0;
  const auto index = static_cast<std::ptrdiff_t>(rank * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), samples.begin() + index, samples.end());
  return samples[static_cast<std::size_t>(index)];
}

std::vector<std::uint64_t> merge(const std::vector<std::vector<std::uint64_t>>& samples) {
  std::vector<std::uint64_t> all;
  for (const std::vector<std::uint64_t>& part : samples) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace simm::bench
