#include "daemon/tools/simm-bench/bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>

#include "daemon/tools/simm-bench/kv_session.h"
#include "daemon/tools/simm-bench/page_pattern.h"
#include "daemon/tools/simm-bench/process_cpu.h"
#include "daemon/tools/simm-bench/worker_pool.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kBytesPerRound = 2'500'000'000;

Expected<Region> region_for(Client& client, RegionKind kind, std::uint64_t bytes) {
  if (kind == RegionKind::shared) return client.allocate_region(bytes);
  // Unmapped at the end of the worker's process.
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return system_error("mmap", errno);
  RegisterOptions options;
  options.kind = kind;
  options.allow_foreign = kind == RegionKind::foreign;
  return client.register_region(memory, bytes, options);
}

std::uint64_t now_ns() {
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count());
}

// What a worker records of a call: when it began and ended, and the daemon's CPU time then.
constexpr std::size_t kSamplesPerCall = 4;

// Records each of `batches` calls, after one that warms up; `between` runs behind each.
Outcome time_batches(Worker& worker, pid_t daemon, std::size_t batches,
                     const std::function<Outcome()>& call,
                     const std::function<Outcome()>& between) {
  for (std::size_t i = 0; i <= batches; ++i) {
    const Expected<std::uint64_t> start_cpu_ns = cpu_time_ns(daemon);
    const std::uint64_t start_ns = now_ns();
    const Outcome moved = call();
    const std::uint64_t end_ns = now_ns();
    if (!moved) return moved;
    const Expected<std::uint64_t> end_cpu_ns = cpu_time_ns(daemon);
    if (!start_cpu_ns) return start_cpu_ns.error();
    if (!end_cpu_ns) return end_cpu_ns.error();
    if (i > 0) {
      for (const std::uint64_t sample : {start_ns, end_ns, *start_cpu_ns, *end_cpu_ns}) {
        worker.record(sample);
      }
    }
    const Outcome prepared = between();
    if (!prepared) return prepared;
  }
  return Done{};
}

Outcome move_batches(Worker& worker, const MeasuredProcess& daemon, const BandwidthCase& row,
                     const BatchShape& shape) {
  Expected<KvSession> session = KvSession::connect(daemon.socket_path, WaitMode::adaptive);
  if (!session) return session.error();
  Expected<Region> region = region_for(session->client(), row.kind, shape.bytes());
  if (!region) return region.error();
  const std::vector<std::string> keys =
      bench_keys(row.name, worker.index() * shape.pages, shape.pages);
  const std::vector<Item> items = KvSession::items_for(keys, *region, shape.page_bytes);
  for (const Item& item : items) {
    fill_page(item.key, region->data() + item.view.offset(), shape.page_bytes);
  }
  worker.line_up();
  if (row.is_put) {
    const Outcome timed = time_batches(
        worker, daemon.pid, shape.batches, [&] { return session->put(items); },
        [&] { return session->remove(keys); });
    return timed;
  }
  const Outcome stored = session->put(items);
  if (!stored) return stored;
  std::fill_n(region->data(), shape.bytes(), std::byte{0xdb});
  const Outcome timed = time_batches(
      worker, daemon.pid, shape.batches, [&] { return session->get(items); },
      [] { return Outcome(Done{}); });
  if (!timed) return timed;
  const Outcome verified = KvSession::verify(items, *region);
  if (!verified) return verified;
  return session->remove(keys);
}

// What a clock showed at the start and at the end of calls.
struct Spans {
  std::vector<std::uint64_t> each_ns;
  std::uint64_t first_ns = UINT64_MAX;
  std::uint64_t last_ns = 0;

  void add(std::uint64_t start_ns, std::uint64_t end_ns) {
    each_ns.push_back(end_ns - start_ns);
    first_ns = std::min(first_ns, start_ns);
    last_ns = std::max(last_ns, end_ns);
  }
  [[nodiscard]] double all_ns() const { return static_cast<double>(last_ns - first_ns); }
};

// Of the median call of one worker. Of several: all bytes from the first start to the last end;
// their medians would leave out who was kept waiting.
Bandwidth bandwidth_of(const std::vector<std::vector<std::uint64_t>>& workers,
                       const BatchShape& shape) {
  Spans time;
  Spans cpu;
  for (const std::vector<std::uint64_t>& samples : workers) {
    for (std::size_t i = 0; i + kSamplesPerCall <= samples.size(); i += kSamplesPerCall) {
      time.add(samples[i], samples[i + 1]);
      cpu.add(samples[i + 2], samples[i + 3]);
    }
  }
  const auto bytes = static_cast<double>(shape.bytes());
  const auto pages = static_cast<double>(shape.pages);
  if (workers.size() == 1) {
    return {bytes / static_cast<double>(sample_at(time.each_ns, 0.5)) * 1e9,
            static_cast<double>(sample_at(cpu.each_ns, 0.5)) / pages / 1e3};
  }
  const auto calls = static_cast<double>(time.each_ns.size());
  return {bytes * calls / time.all_ns() * 1e9, cpu.all_ns() / (pages * calls) / 1e3};
}

}  // namespace

BatchShape batch_shape(const BenchOptions& options, std::uint64_t page_bytes) {
  BatchShape shape;
  shape.page_bytes = page_bytes;
  if (options.quick) {
    shape.pages = 8;
    return shape;
  }
  shape.batches = std::max<std::size_t>(3, kBytesPerRound / shape.bytes());
  return shape;
}

Expected<Bandwidth> measure_bandwidth(const BenchOptions& options, const MeasuredProcess& daemon,
                                      const BandwidthCase& row, const BatchShape& shape) {
  const std::size_t samples_max = kSamplesPerCall * shape.batches;
  const auto samples =
      run_workers({options.processes, options.threads, samples_max, true},
                  [&](Worker& worker) { return move_batches(worker, daemon, row, shape); });
  if (!samples) return samples.error();
  return bandwidth_of(*samples, shape);
}

}  // namespace simm::bench
