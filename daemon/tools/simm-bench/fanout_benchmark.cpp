#include "daemon/tools/simm-bench/fanout_benchmark.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "daemon/tools/simm-bench/kv_session.h"
#include "daemon/tools/simm-bench/loopback_cluster.h"
#include "daemon/tools/simm-bench/worker_pool.h"
#include "daemon/tools/simm-bench/workload_model.h"

namespace simm::bench {
namespace {

constexpr std::chrono::milliseconds kSpread{50};

struct Node {
  std::string socket_path;
  std::string admin_path;
};

struct Batch {
  std::uint64_t page_bytes;
  std::vector<std::string> keys;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return page_bytes * keys.size(); }
};

// What all data agents of the node have received from other daemons so far.
Expected<std::uint64_t> received_bytes(const Node& node) {
  const Expected<nlohmann::json> counters = ask_daemon(node.admin_path, {"stats", "tcp."});
  if (!counters) return counters.error();
  std::uint64_t bytes = 0;
  bool is_counted = false;
  for (const auto& [name, value] : counters->items()) {
    const std::string_view tail = ".received_bytes";
    if (name.size() < tail.size() || name.substr(name.size() - tail.size()) != tail) continue;
    bytes += value.get<std::uint64_t>();
    is_counted = true;
  }
  if (is_counted) return bytes;
  return Error{Status::unsupported, node.admin_path + ": no node of a cluster answers here"};
}

Outcome store(const Node& node, const Batch& batch) {
  const auto stored = run_workers({1, 1, 0, false}, [&](Worker& worker) -> Outcome {
    Expected<KvSession> session = KvSession::connect(node.socket_path, WaitMode::adaptive);
    if (!session) return session.error();
    worker.line_up();
    return session->put_patterns(batch.keys, batch.page_bytes);
  });
  return stored ? Outcome(Done{}) : Outcome(stored.error());
}

Outcome remove(const Node& node, const Batch& batch) {
  const auto removed = run_workers({1, 1, 0, false}, [&](Worker& worker) -> Outcome {
    Expected<KvSession> session = KvSession::connect(node.socket_path, WaitMode::adaptive);
    if (!session) return session.error();
    worker.line_up();
    return session->remove(batch.keys);
  });
  return removed ? Outcome(Done{}) : Outcome(removed.error());
}

// A rank that starts at its own time, and looks at every byte that it got.
Outcome get_all(Worker& worker, const Node& node, const Batch& batch, unsigned ranks) {
  Expected<KvSession> session = KvSession::connect(node.socket_path, WaitMode::adaptive);
  if (!session) return session.error();
  Expected<Region> region = session->client().allocate_region(batch.bytes());
  if (!region) return region.error();
  std::fill_n(region->data(), batch.bytes(), std::byte{0xdb});
  const std::vector<Item> items = KvSession::items_for(batch.keys, *region, batch.page_bytes);
  worker.line_up();
  std::this_thread::sleep_for(kSpread * worker.index() / std::max(1u, ranks - 1));
  const auto start = std::chrono::steady_clock::now();
  const Outcome got = session->get(items);
  const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
  if (!got) return got;
  worker.record(static_cast<std::uint64_t>(spent.count()));
  worker.line_up();  // nobody else is slowed down by looking
  return KvSession::verify(items, *region);
}

struct FanoutFigures {
  Rounds bytes;
  std::vector<double> slowest_ms;
};

Outcome measure_round(const FanoutOptions& options, const Node& node, const Batch& batch,
                      FanoutFigures& figures) {
  const unsigned ranks = options.bench.processes;
  const Outcome stored = store(node, batch);
  if (!stored) return stored;
  const Expected<std::uint64_t> before = received_bytes(node);
  if (!before) return before.error();
  const auto samples = run_workers(
      {ranks, 1, 1, true}, [&](Worker& worker) { return get_all(worker, node, batch, ranks); });
  if (!samples) return samples.error();
  const Expected<std::uint64_t> after = received_bytes(node);
  if (!after) return after.error();
  std::vector<std::uint64_t> all = merge(*samples);
  figures.slowest_ms.push_back(static_cast<double>(sample_at(all, 1.0)) / 1e6);
  figures.bytes.values.push_back(static_cast<double>(*after - *before));
  figures.bytes.baselines.push_back(static_cast<double>(batch.bytes()));
  return remove(node, batch);
}

Outcome measure(const FanoutOptions& options, const Node& node, std::uint64_t page_bytes,
                ResultPrinter& printer) {
  const std::size_t pages = options.bench.quick ? 8 : kPagesPerCall;
  FanoutFigures figures;
  for (std::size_t round = 0; round < (options.bench.quick ? 1 : 5); ++round) {
    // New ones in each round: the node still has the former.
    const Batch batch{page_bytes, bench_keys("fanout", round * pages, pages, kAllRanksTail)};
    const Outcome measured = measure_round(options, node, batch, figures);
    if (!measured) return measured;
  }
  printer.print(figures.bytes.result("node.fanout", "bytes",
                                     {{"page_bytes", page_bytes},
                                      {"pages", pages},
                                      {"ranks", options.bench.processes},
                                      {"spread_ms", kSpread.count()},
                                      {"slowest_rank_ms", median_of(figures.slowest_ms)}}));
  return Done{};
}

}  // namespace

Outcome run_fanout_benchmark(const FanoutOptions& options, ResultPrinter& printer) {
  const std::uint64_t page_bytes =
      options.bench.quick ? std::uint64_t{256} << 10 : kDeepSeekR1.object_bytes;
  if (!options.bench.socket_path.empty()) {
    Node node{options.bench.socket_path, options.admin_path};
    if (node.admin_path.empty()) {
      node.admin_path = node.socket_path.substr(0, node.socket_path.rfind('/') + 1) + "admin.sock";
    }
    return measure(options, node, page_bytes, printer);
  }
  ClusterOptions cluster_options;
  cluster_options.pool_bytes = kPagesPerCall * page_bytes * 2 + (256ull << 20);
  // Room for all pages: a smaller cache evicts what the last rank has yet to ask for.
  cluster_options.cache_bytes = kPagesPerCall * page_bytes * 2 + (64ull << 20);
  const Expected<LoopbackCluster> cluster = LoopbackCluster::start(cluster_options);
  if (!cluster) return cluster.error();
  return measure(options, {cluster->node().socket_path(), cluster->node().admin_path()}, page_bytes,
                 printer);
}

}  // namespace simm::bench
