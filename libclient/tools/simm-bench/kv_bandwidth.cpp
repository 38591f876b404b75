#include "libclient/tools/simm-bench/kv_bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "libclient/tools/simm-bench/kv_session.h"
#include "libclient/tools/simm-bench/page_pattern.h"
#include "libclient/tools/simm-bench/pinning.h"
#include "libclient/tools/simm-bench/worker_pool.h"
#include "libclient/tools/simm-bench/workload_model.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kBytesPerRound = 2'500'000'000;

struct BandwidthCase {
  const char* name;
  RegionKind kind;
  bool is_put;
};

struct BatchShape {
  std::uint64_t page_bytes = 0;
  std::size_t pages = kPagesPerCall;
  std::size_t batches = 3;  // of a round

  [[nodiscard]] std::uint64_t bytes() const noexcept { return page_bytes * pages; }
};

BatchShape shape_of(const BenchOptions& options, std::uint64_t page_bytes) {
  BatchShape shape;
  shape.page_bytes = page_bytes;
  if (options.quick) {
    shape.pages = 8;
    return shape;
  }
  shape.batches = std::max<std::size_t>(3, kBytesPerRound / shape.bytes());
  return shape;
}

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

// Bytes per second of all workers together.
Expected<double> measure(const BenchOptions& options, const std::string& socket_path,
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

// What this host does not allow (copies out of private memory need a privilege) is no failure.
bool is_left_out(const Error& error) {
  return error.status == Status::unsupported || error.status == Status::permission_denied;
}

Outcome measure_row(const BenchOptions& options, const std::string& socket_path,
                    const BandwidthCase& row, const BatchShape& shape, ResultPrinter& printer) {
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 3); ++round) {
    const Expected<Baseline> copy = run_baseline(
        {"baseline_memcpy", std::to_string(shape.page_bytes), std::to_string(shape.pages),
         std::to_string(shape.batches), std::to_string(daemon_cpu())},
        "bytes_per_s");
    if (!copy) return copy.error();
    rounds.add_baseline(*copy);
    const Expected<double> moved = measure(options, socket_path, row, shape);
    if (!moved && is_left_out(moved.error())) {
      std::fprintf(stderr, "%s: left out: %s\n", row.name, moved.error().context.c_str());
      return Done{};
    }
    if (!moved) return Error{moved.status(), std::string(row.name) + ": " + moved.error().context};
    rounds.values.push_back(*moved);
  }
  printer.print(rounds.result(row.name, "B/s",
                              {{"page_bytes", shape.page_bytes},
                               {"pages", shape.pages},
                               {"region", region_kind_name(row.kind)},
                               {"processes", options.processes},
                               {"threads", options.threads}}));
  return Done{};
}

}  // namespace

Outcome run_kv_bandwidth(const BenchOptions& options, ResultPrinter& printer) {
  const std::uint64_t workers = std::uint64_t{options.processes} * options.threads;
  const std::uint64_t batch_bytes = shape_of(options, kDeepSeekR1.object_bytes).bytes();
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = workers * batch_bytes * 2 + (512ull << 20);
  daemon_options.cpu = daemon_cpu();
  daemon_options.allow_foreign = true;
  const Expected<MeasuredDaemon> daemon = MeasuredDaemon::open(options, daemon_options);
  if (!daemon) return daemon.error();
  constexpr BandwidthCase kRows[] = {{"kv.get_bw", RegionKind::shared, false},
                                     {"kv.put_bw", RegionKind::shared, true},
                                     {"kv.get_bw_staged", RegionKind::staged, false},
                                     {"kv.get_bw_foreign", RegionKind::foreign, false}};
  for (const std::uint64_t page_bytes : {kLlama70b.object_bytes, kDeepSeekR1.object_bytes}) {
    for (const BandwidthCase& row : kRows) {
      const Outcome outcome =
          measure_row(options, daemon->socket_path(), row, shape_of(options, page_bytes), printer);
      if (!outcome) return outcome;
    }
  }
  return Done{};
}

}  // namespace simm::bench
