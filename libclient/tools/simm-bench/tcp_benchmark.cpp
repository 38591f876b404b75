#include "libclient/tools/simm-bench/tcp_benchmark.h"

#include <optional>
#include <utility>

#include "libclient/tools/simm-bench/bandwidth.h"
#include "libclient/tools/simm-bench/ipc_benchmark.h"
#include "libclient/tools/simm-bench/kv_latency.h"
#include "libclient/tools/simm-bench/loopback_cluster.h"
#include "libclient/tools/simm-bench/pinning.h"
#include "libclient/tools/simm-bench/workload_model.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kMebibyte = 1ull << 20;

// The node that is measured: the one that --daemon names, or that of a cluster of our own.
class MeasuredNode {
public:
  static Expected<MeasuredNode> open(const BenchOptions& options, const ClusterOptions& cluster) {
    MeasuredNode node;
    node.socket_path_ = options.socket_path;
    if (!options.socket_path.empty()) return node;
    Expected<LoopbackCluster> own = LoopbackCluster::start(cluster);
    if (!own) return own.error();
    node.socket_path_ = own->node().socket_path();
    node.own_.emplace(std::move(*own));
    return node;
  }

  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }

private:
  MeasuredNode() = default;

  std::string socket_path_;
  std::optional<LoopbackCluster> own_;
};

// Where the ends of a bare connection run: like the node and its storage daemon.
std::vector<std::string> bare_connection(const char* how, std::uint64_t page_bytes,
                                         std::uint64_t pages, std::uint64_t rounds) {
  return {"baseline_loopback",          how,
          std::to_string(page_bytes),   std::to_string(pages),
          std::to_string(rounds),       std::to_string(daemon_cpu()),
          std::to_string(worker_cpu(0))};
}

Outcome measure_bw(const BenchOptions& options, const std::string& socket_path,
                   const BandwidthCase& row, const BatchShape& shape, ResultPrinter& printer) {
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
    const Expected<Baseline> bare = run_baseline(
        bare_connection("stream", shape.page_bytes, shape.pages, shape.batches + 1), "bytes_per_s");
    if (!bare) return bare.error();
    rounds.add_baseline(*bare);
    const Expected<double> moved = measure_bandwidth(options, socket_path, row, shape);
    if (!moved) return Error{moved.status(), std::string(row.name) + ": " + moved.error().context};
    rounds.values.push_back(*moved);
  }
  printer.print(rounds.result(row.name, "B/s",
                              {{"page_bytes", shape.page_bytes},
                               {"pages", shape.pages},
                               {"wait", "adaptive"},
                               {"processes", options.processes},
                               {"threads", options.threads}}));
  return Done{};
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
                   const std::string& socket_path, WaitMode wait, ResultPrinter& printer) {
  const SmallGets gets{wait, (options.quick ? 4 : 64) * kMebibyte,
                       options.quick ? std::size_t{500} : std::size_t{20'000}};
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
    const Expected<Baseline> bare = bare_round_trip(options, event_socket, gets);
    if (!bare) return bare.error();
    rounds.add_baseline(*bare);
    const Expected<double> p50 = small_get_p50_us(options, socket_path, gets);
    if (!p50) return p50.error();
    rounds.values.push_back(*p50);
  }
  const bool sleeps = wait == WaitMode::event;
  printer.print(rounds.result(sleeps ? "tcp.get_4k_p50" : "tcp.get_4k_adaptive_p50", "us",
                              {{"page_bytes", kSmallPageBytes},
                               {"working_set_bytes", gets.set_bytes},
                               {"wait", sleeps ? "event" : "adaptive"},
                               {"processes", options.processes},
                               {"threads", options.threads}}));
  return Done{};
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
      const Outcome outcome =
          measure_bw(options, node->socket_path(), row, batch_shape(options, page_bytes), printer);
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
  const Outcome measured = measure_4k(options, sleeping->socket_path(), sleeping->socket_path(),
                                      WaitMode::event, printer);
  if (!measured) return measured;
  cluster.wait = "adaptive";
  const Expected<MeasuredNode> adaptive = MeasuredNode::open(options, cluster);
  if (!adaptive) return adaptive.error();
  return measure_4k(options, sleeping->socket_path(), adaptive->socket_path(), WaitMode::adaptive,
                    printer);
}

}  // namespace simm::bench
