#include "libclient/tools/simm-bench/bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>

#include "libclient/tools/simm-bench/kv_session.h"
#include "libclient/tools/simm-bench/page_pattern.h"
#include "libclient/tools/simm-bench/worker_pool.h"

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

// When each of `batches` calls began and ended, after one that warms up; `between` runs behind
// each.
Outcome time_batches(Worker& worker, std::size_t batches, const std::function<Outcome()>& call,
                     const std::function<Outcome()>& between) {
  for (std::size_t i = 0; i <= batches; ++i) {
    const std::uint64_t start_ns = now_ns();
    const Outcome moved = call();
    const std::uint64_t end_ns = now_ns();
    if (!moved) return moved;
    if (i > 0) {
      worker.record(start_ns);
      worker.record(end_ns);
    }
    const Outcome prepared = between();
    if (!prepared) return prepared;
  }
  return Done{};
}

Outcome move_batches(Worker& worker, const std::string& socket_path, const BandwidthCase& row,
                     const BatchShape& shape) {
  Expected<KvSession> session = KvSession::connect(socket_path, WaitMode::adaptive);
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
        worker, shape.batches, [&] { return session->put(items); },
        [&] { return session->remove(keys); });
    return timed;
  }
  const Outcome stored = session->put(items);
  if (!stored) return stored;
  std::fill_n(region->data(), shape.bytes(), std::byte{0xdb});
  const Outcome timed = time_batches(
      worker, shape.batches, [&] { return session->get(items); }, [] { return Outcome(Done{}); });
  if (!timed) return timed;
  const Outcome verified = KvSession::verify(items, *region);
  if (!verified) return verified;
  return session->remove(keys);
}

// Bytes per second of the median call of one worker. Of several: all bytes from the first start to
// the last end; their medians would leave out who was kept waiting.
double bandwidth_of(const std::vector<std::vector<std::uint64_t>>& workers, std::uint64_t bytes) {
  std::vector<std::uint64_t> spent_ns;
  std::uint64_t first_ns = UINT64_MAX;
  std::uint64_t last_ns = 0;
  for (const std::vector<std::uint64_t>& times : workers) {
    for (std::size_t i = 0; i + 1 < times.size(); i += 2) {
      spent_ns.push_back(times[i + 1] - times[i]);
      first_ns = std::min(first_ns, times[i]);
      last_ns = std::max(last_ns, times[i + 1]);
    }
  }
  if (workers.size() == 1) {
    return static_cast<double>(bytes) / static_cast<double>(sample_at(spent_ns, 0.5)) * 1e9;
  }
  const auto moved = static_cast<double>(bytes * spent_ns.size());
  return moved / static_cast<double>(last_ns - first_ns) * 1e9;
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

Expected<double> measure_bandwidth(const BenchOptions& options, const std::string& socket_path,
                                   const BandwidthCase& row, const BatchShape& shape) {
  const auto samples =
      run_workers({options.processes, options.threads, 2 * shape.batches, true},
                  [&](Worker& worker) { return move_batches(worker, socket_path, row, shape); });
  if (!samples) return samples.error();
  return bandwidth_of(*samples, shape.bytes());
}

}  // namespace simm::bench
