#include "libclient/tools/simm-bench/bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
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

// Times `batches` calls after one that warms up; `between` runs untimed after each.
Outcome time_batches(Worker& worker, std::size_t batches, const std::function<Outcome()>& call,
                     const std::function<Outcome()>& between) {
  for (std::size_t i = 0; i <= batches; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Outcome moved = call();
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
    if (!moved) return moved;
    if (i > 0) worker.record(static_cast<std::uint64_t>(spent.count()));
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
      run_workers({options.processes, options.threads, shape.batches, true},
                  [&](Worker& worker) { return move_batches(worker, socket_path, row, shape); });
  if (!samples) return samples.error();
  double bytes_per_s = 0;
  for (std::vector<std::uint64_t> worker : *samples) {
    const auto median_ns = static_cast<double>(sample_at(worker, 0.5));
    bytes_per_s += static_cast<double>(shape.bytes()) / median_ns * 1e9;
  }
  return bytes_per_s;
}

}  // namespace simm::bench
