#include "daemon/tools/simm-bench/rdma_benchmark.h"

#include <algorithm>

#include "daemon/tools/simm-bench/perftest.h"
#include "daemon/tools/simm-bench/remote_pages.h"
#include "daemon/tools/simm-bench/workload_model.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kRdmaPageBytes = 1ull << 20;
constexpr std::uint64_t kMessageBytes = 64;

// Devices differ by four orders of magnitude: a batch takes half a second, gets two.
constexpr double kBatchSeconds = 0.5;
constexpr double kGetsMicroseconds = 2e6;
constexpr std::uint64_t kGetsMin = 500;

// A count that is at least and at most so much.
std::uint64_t within(double wanted, double least, double most) {
  return static_cast<std::uint64_t>(std::clamp(wanted, least, most));
}

ClusterOptions cluster_for(const BenchOptions& options, std::uint64_t pool_bytes,
                           const char* wait) {
  ClusterOptions cluster;
  cluster.pool_bytes = pool_bytes;
  cluster.cache_bytes = 0;  // nothing is read by several ranks
  cluster.wait = wait;
  cluster.near_devices = options.near_devices;
  cluster.far_devices = options.far_devices;
  return cluster;
}

Expected<Baseline> bare_bandwidth(const char* program, const std::vector<DevicePair>& pairs,
                                  std::uint64_t pages) {
  return run_perftest({program, kRdmaPageBytes, std::max(pages, kPerftestIterationsMin)}, pairs);
}

// Microseconds of the messages that a get is made of: there, the data, and the answer.
Expected<Baseline> bare_latency(const std::vector<DevicePair>& pairs, std::uint64_t times) {
  const Expected<Baseline> send = run_perftest({"ib_send_lat", kMessageBytes, times}, pairs);
  if (!send) return send.error();
  const Expected<Baseline> write = run_perftest({"ib_write_lat", kSmallPageBytes, times}, pairs);
  if (!write) return write.error();
  if (send->noisy || write->noisy) return Baseline{0, true};
  return Baseline{2 * send->value + write->value, false};
}

// Batches that fit what the devices can do.
Expected<BatchShape> shape_for(const BenchOptions& options, const std::vector<DevicePair>& pairs) {
  if (options.quick) return BatchShape{kRdmaPageBytes, 4, 1};
  const Expected<Baseline> tried = bare_bandwidth("ib_write_bw", pairs, 8);
  if (!tried) return tried.error();
  const double pages = tried->value * kBatchSeconds / static_cast<double>(kRdmaPageBytes);
  BatchShape shape;
  shape.page_bytes = kRdmaPageBytes;
  shape.pages = within(pages, 8, static_cast<double>(kPagesPerCall));
  shape.batches = within(4 * pages / static_cast<double>(shape.pages), 3, 1'000);
  return shape;
}

// How often a page is got in a round.
Expected<std::uint64_t> gets_for(const BenchOptions& options,
                                 const std::vector<DevicePair>& pairs) {
  if (options.quick) return 100;
  const Expected<Baseline> tried = bare_latency(pairs, 100);
  if (!tried) return tried.error();
  if (tried->noisy) return kGetsMin;
  return within(kGetsMicroseconds / tried->value, kGetsMin, 20'000);
}

Outcome measure_4k(const BenchOptions& options, const std::vector<DevicePair>& pairs, WaitMode wait,
                   std::uint64_t times, ResultPrinter& printer) {
  const bool sleeps = wait == WaitMode::event;
  const Expected<MeasuredNode> node = MeasuredNode::open(
      options, cluster_for(options, 256 * kRdmaPageBytes, sleeps ? "event" : "adaptive"));
  if (!node) return node.error();
  const SmallGets gets{wait, (options.quick ? 1 : 16) * kRdmaPageBytes, times};
  return measure_remote_gets(
      options, *node, sleeps ? "rdma.get_4k_event_p50" : "rdma.get_4k_p50", gets,
      [&] { return bare_latency(pairs, times); }, printer);
}

}  // namespace

Outcome run_rdma_bandwidth(const BenchOptions& options, ResultPrinter& printer) {
  const auto pairs = device_pairs(options.near_devices, options.far_devices);
  if (!pairs) return pairs.error();
  const Expected<BatchShape> shape = shape_for(options, *pairs);
  if (!shape) return shape.error();
  const std::uint64_t workers = std::uint64_t{options.processes} * options.threads;
  const Expected<MeasuredNode> node = MeasuredNode::open(
      options,
      cluster_for(options, workers * shape->bytes() * 2 + 128 * kRdmaPageBytes, "adaptive"));
  if (!node) return node.error();
  struct Row {
    BandwidthCase row;
    const char* program;
  };
  constexpr Row kRows[] = {{{"rdma.get_bw", RegionKind::shared, false}, "ib_write_bw"},
                           {{"rdma.put_bw", RegionKind::shared, true}, "ib_read_bw"}};
  for (const Row& one : kRows) {
    const Outcome outcome = measure_remote_bandwidth(
        options, *node, one.row, *shape,
        [&] { return bare_bandwidth(one.program, *pairs, shape->pages * shape->batches); },
        printer);
    if (!outcome) return outcome;
  }
  return Done{};
}

Outcome run_rdma_latency(const BenchOptions& options, ResultPrinter& printer) {
  const auto pairs = device_pairs(options.near_devices, options.far_devices);
  if (!pairs) return pairs.error();
  const Expected<std::uint64_t> times = gets_for(options, *pairs);
  if (!times) return times.error();
  const Outcome adaptive = measure_4k(options, *pairs, WaitMode::adaptive, *times, printer);
  if (!adaptive) return adaptive;
  return measure_4k(options, *pairs, WaitMode::event, *times, printer);
}

}  // namespace simm::bench
