#include "daemon/tools/simm-bench/tcp_benchmark.h"

#include "daemon/tools/simm-bench/ipc_benchmark.h"
#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/remote_pages.h"
#include "daemon/tools/simm-bench/workload_model.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kMebibyte = 1ull << 20;

// Where the ends of a bare connection run: like the node and its storage daemon.
std::vector<std::string> bare_connection(const char* how, std::uint64_t page_bytes,
                                         std::uint64_t pages, std::uint64_t rounds) {
  return {"baseline_loopback",          how,
          std::to_string(page_bytes),   std::to_string(pages),
          std::to_string(rounds),       std::to_string(daemon_cpu()),
          std::to_string(worker_cpu(0))};
}

// Microseconds of what a small get can not do without: 4 KiB over a bare connection and back, and
// a call of a client that sleeps meanwhile, to a node that slept.
Expected<Baseline> bare_round_trip(const BenchOptions& options, const std::string& socket_path,
                                   const SmallGets& gets) {
  const Expected<Baseline> pingpong = run_baseline(
      bare_connection("pingpong", kSmallPageBytes, gets.set_bytes / kSmallPageBytes, gets.calls),
      "p50_us");
  if (!pingpong) return pingpong.error();
  const auto pings = static_cast<std::uint32_t>(gets.calls);
  const Expected<double> noop_ns =
      measure_ping(options, socket_path, {WaitMode::event, pings / 10, pings, {}});
  if (!noop_ns) return noop_ns.error();
  return Baseline{pingpong->value + *noop_ns / 1e3, pingpong->noisy};
}

Outcome measure_4k(const BenchOptions& options, const std::string& event_socket,
                   const MeasuredNode& node, WaitMode wait, ResultPrinter& printer) {
  const SmallGets gets{wait, (options.quick ? 4 : 64) * kMebibyte,
                       options.quick ? std::size_t{500} : std::size_t{20'000}};
  return measure_remote_gets(
      options, node, wait == WaitMode::event ? "tcp.get_4k_p50" : "tcp.get_4k_adaptive_p50", gets,
      [&] { return bare_round_trip(options, event_socket, gets); }, printer);
}

}  // namespace

Outcome run_tcp_bandwidth(const BenchOptions& options, ResultPrinter& printer) {
  const std::uint64_t workers = std::uint64_t{options.processes} * options.threads;
  ClusterOptions cluster;
  cluster.pool_bytes =
      workers * batch_shape(options, kDeepSeekR1.object_bytes).bytes() * 2 + 512 * kMebibyte;
  const Expected<MeasuredNode> node = MeasuredNode::open(options, cluster);
  if (!node) return node.error();
  constexpr BandwidthCase kRows[] = {{"tcp.get_bw", RegionKind::shared, false},
                                     {"tcp.put_bw", RegionKind::shared, true}};
  for (const std::uint64_t page_bytes : {kMebibyte, kDeepSeekR1.object_bytes}) {
    for (const BandwidthCase& row : kRows) {
      const BatchShape shape = batch_shape(options, page_bytes);
      const Outcome outcome = measure_remote_bandwidth(
          options, *node, row, shape,
          [&shape] {
            return run_baseline(
                bare_connection("stream", shape.page_bytes, shape.pages, shape.batches + 1),
                "bytes_per_s");
          },
          printer);
      if (!outcome) return outcome;
    }
  }
  return Done{};
}

Outcome run_tcp_latency(const BenchOptions& options, ResultPrinter& printer) {
  ClusterOptions cluster;
  cluster.pool_bytes = 512 * kMebibyte;
  cluster.wait = "event";
  const Expected<MeasuredNode> sleeping = MeasuredNode::open(options, cluster);
  if (!sleeping) return sleeping.error();
  const Outcome measured =
      measure_4k(options, sleeping->socket_path(), *sleeping, WaitMode::event, printer);
  if (!measured) return measured;
  cluster.wait = "adaptive";
  const Expected<MeasuredNode> adaptive = MeasuredNode::open(options, cluster);
  if (!adaptive) return adaptive.error();
  return measure_4k(options, sleeping->socket_path(), *adaptive, WaitMode::adaptive, printer);
}

}  // namespace simm::bench
