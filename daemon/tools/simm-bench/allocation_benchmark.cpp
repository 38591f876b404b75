#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/tools/simm-bench/kv_session.h"
#include "daemon/tools/simm-bench/loopback_cluster.h"
#include "daemon/tools/simm-bench/node_benchmark.h"
#include "daemon/tools/simm-bench/probe_file.h"
#include "daemon/tools/simm-bench/worker_pool.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kPoolBytes = 256ull << 20;

// A daemon that takes part.
struct ProbedDaemon {
  const char* role;
  pid_t pid;
  const ProbeFile& probe;
};

// The threads that serve attach, admin and registration requests and never touch a batch.
bool is_control(const std::string& thread) {
  for (const char* name : {"simmd", "simm-registrar"}) {
    if (thread.rfind(name, 0) == 0) return true;
  }
  return false;
}

// Pages of one process and pages that all ranks read, short ones that travel inside requests and
// long ones that are pulled: each by another way through the daemons.
struct Pages {
  static constexpr std::uint64_t kShortBytes = 4'096;
  static constexpr std::uint64_t kLongBytes = 40'000;

  std::vector<std::string> keys;
  std::vector<Item> items;

  static Expected<Region> allocate(Client& client) {
    return client.allocate_region(kKindsOfPages * kPagesOfAKind * kLongBytes);
  }
  explicit Pages(const Region& region) {
    for (const char* tail : {kOneRanksTail, kAllRanksTail}) {
      for (std::string& key : bench_keys("allocations", 0, 2 * kPagesOfAKind, tail)) {
        keys.push_back(std::move(key));
      }
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::uint64_t bytes = i % 2 == 0 ? kShortBytes : kLongBytes;
      items.push_back(Item{keys[i], View(region, i * kLongBytes, bytes), 0, 0});
    }
  }

private:
  static constexpr std::size_t kKindsOfPages = 4;
  static constexpr std::size_t kPagesOfAKind = 4;
};

// A put, a get and an exists batch in turn.
Outcome send_batches(KvSession& session, const Pages& pages, std::size_t batches) {
  const std::vector<std::string_view> names(pages.keys.begin(), pages.keys.end());
  std::vector<PageResult> results(names.size());
  CallOptions options;
  options.mode = PutMode::replace;
  options.timeout_ms = 30'000;  // a shared machine may stall for seconds
  for (std::size_t i = 0; i < batches; ++i) {
    Status status = Status::ok;
    if (i % 3 == 0) status = session.client().put(pages.items, results, options);
    if (i % 3 == 1) status = session.client().get(pages.items, results, options);
    if (i % 3 == 2) status = session.client().exists(names, results, options);
    const bool all = std::all_of(results.begin(), results.end(),
                                 [](const PageResult& result) { return result.ok(); });
    if (status != Status::ok || !all) {
      return Error{status, "batch " + std::to_string(i) + ": " + simm::last_error()};
    }
  }
  return Done{};
}

std::vector<ThreadAllocations> count_all(const std::vector<ProbedDaemon>& daemons) {
  std::vector<ThreadAllocations> all;
  for (const ProbedDaemon& daemon : daemons) all.push_back(daemon.probe.count(daemon.pid));
  return all;
}

Outcome count_batches(Worker& worker, const std::string& socket_path, const char* path,
                      const std::vector<ProbedDaemon>& daemons, std::size_t batches,
                      ResultPrinter& printer) {
  Expected<KvSession> session = KvSession::connect(socket_path, WaitMode::adaptive);
  if (!session) return session.error();
  const Expected<Region> region = Pages::allocate(session->client());
  if (!region) return region.error();
  const Pages pages(*region);
  worker.line_up();
  const Outcome warm = send_batches(*session, pages, 3'000);
  if (!warm) return warm.error();
  const std::vector<ThreadAllocations> before = count_all(daemons);
  for (const ThreadAllocations& threads : before) {
    const auto counted = [](const auto& thread) { return thread.second != 0; };
    if (std::none_of(threads.begin(), threads.end(), counted)) {
      return Error{Status::io_error, "the probe counted nothing: is simmd linked statically?"};
    }
  }
  const Outcome sent = send_batches(*session, pages, batches);
  if (!sent) return sent.error();
  const std::vector<ThreadAllocations> after = count_all(daemons);
  nlohmann::json threads = nlohmann::json::object();
  std::uint64_t on_data_threads = 0;
  for (std::size_t i = 0; i < daemons.size(); ++i) {
    for (const auto& [name, count] : after[i]) {
      const auto earlier = before[i].find(name);
      const std::uint64_t made = count - (earlier == before[i].end() ? 0 : earlier->second);
      threads[std::string(daemons[i].role) + "/" + name] = made;
      if (!is_control(name)) on_data_threads += made;
    }
  }
  Result result;
  result.name = "engine.allocations";
  result.value = static_cast<double>(on_data_threads);
  result.unit = "count";
  result.params = {{"batches", batches}, {"path", path}, {"threads", threads}};
  printer.print(result);
  return Done{};
}

Outcome count_in(const BenchOptions& options, const std::string& socket_path, const char* path,
                 const std::vector<ProbedDaemon>& daemons, ResultPrinter& printer) {
  const std::size_t batches = options.quick ? 3'000 : 100'000;
  const auto samples = run_workers({1, 1, 0, false}, [&](Worker& worker) {
    return count_batches(worker, socket_path, path, daemons, batches, printer);
  });
  if (!samples) return samples.error();
  return Done{};
}

Outcome count_local(const BenchOptions& options, ResultPrinter& printer) {
  const ProbeFile probe;
  if (!probe.is_open()) return system_error(probe.path(), errno);
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = kPoolBytes;
  daemon_options.environment = probe.environment();
  const Expected<DaemonProcess> daemon = DaemonProcess::start(daemon_options);
  if (!daemon) return daemon.error();
  return count_in(options, daemon->socket_path(), "local", {{"all", daemon->pid(), probe}},
                  printer);
}

Outcome count_over_tcp(const BenchOptions& options, ResultPrinter& printer) {
  const ProbeFile node_probe;
  const ProbeFile storage_probe;
  if (!node_probe.is_open() || !storage_probe.is_open()) {
    return system_error(storage_probe.path(), errno);
  }
  ClusterOptions cluster_options;
  cluster_options.pool_bytes = kPoolBytes;
  cluster_options.node_environment = node_probe.environment();
  cluster_options.storage_environment = storage_probe.environment();
  const Expected<LoopbackCluster> cluster = LoopbackCluster::start(cluster_options);
  if (!cluster) return cluster.error();
  const DaemonProcess& node = cluster->node();
  return count_in(
      options, node.socket_path(), "tcp",
      {{"node", node.pid(), node_probe}, {"storage", cluster->storage().pid(), storage_probe}},
      printer);
}

}  // namespace

Outcome run_allocation_benchmark(const BenchOptions& options, ResultPrinter& printer) {
  if (!options.socket_path.empty()) {
    std::fprintf(stderr, "engine.allocations: left out, it needs daemons of its own\n");
    return Done{};
  }
  const Outcome counted = count_local(options, printer);
  if (!counted) return counted;
  return count_over_tcp(options, printer);
}

}  // namespace simm::bench
