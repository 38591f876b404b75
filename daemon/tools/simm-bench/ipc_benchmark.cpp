#include "daemon/tools/simm-bench/ipc_benchmark.h"

#include <chrono>
#include <thread>

#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/worker_pool.h"
#include "simm/client.h"

namespace simm::bench {
namespace {

nlohmann::json params_of(const BenchOptions& options, const char* wait) {
  return {{"wait", wait}, {"processes", options.processes}, {"threads", options.threads}};
}

Outcome noop(const BenchOptions& options, ResultPrinter& printer) {
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = 256ull << 20;
  daemon_options.cpu = daemon_cpu();
  const Expected<MeasuredDaemon> daemon = MeasuredDaemon::open(options, daemon_options);
  if (!daemon) return daemon.error();
  const std::uint32_t pings = options.quick ? 5'000 : 300'000;
  const std::string client_cpu = std::to_string(worker_cpu(0));
  const std::string server_cpu = std::to_string(daemon_cpu());
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
    const Expected<Baseline> bare =
        run_baseline({"baseline_ring", std::to_string(pings), client_cpu, server_cpu}, "p50_ns");
    if (!bare) return bare.error();
    rounds.add_baseline(*bare);
    const PingCase spinning{WaitMode::spin, pings / 10, pings, {}};
    const Expected<double> p50_ns = measure_ping(options, daemon->socket_path(), spinning);
    if (!p50_ns) return p50_ns.error();
    rounds.values.push_back(*p50_ns);
  }
  printer.print(rounds.result("ipc.noop_p50", "ns", params_of(options, "spin")));
  const PingCase asleep{WaitMode::event, 10, options.quick ? 50u : 500u,
                        std::chrono::milliseconds(5)};
  const Expected<double> p50_ns = measure_ping(options, daemon->socket_path(), asleep);
  if (!p50_ns) return p50_ns.error();
  Rounds sleeping;
  sleeping.values.push_back(*p50_ns);
  printer.print(sleeping.result("ipc.noop_sleeping_p50", "ns", params_of(options, "event")));
  return Done{};
}

Outcome descriptors(const BenchOptions& options, ResultPrinter& printer) {
  const std::string batches = options.quick ? "500" : "20000";
  const std::string cpu = std::to_string(worker_cpu(0));
  const std::string key_bytes = "67";  // `<64 hex>__k`
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
    const Expected<Baseline> bare =
        run_baseline({"baseline_descriptors", batches, cpu, key_bytes}, "descriptors_per_s");
    if (!bare) return bare.error();
    rounds.add_baseline(*bare);
    // The reader of descriptors is a part of the daemon that this program does not contain.
    const Expected<Baseline> validated =
        run_baseline({"probe_descriptors", batches, cpu, key_bytes}, "descriptors_per_s");
    if (!validated) return validated.error();
    rounds.values.push_back(validated->value);
  }
  printer.print(rounds.result("ipc.descriptors", "1/s", {{"agents", 1}, {"key_bytes", 67}}));
  return Done{};
}

}  // namespace

Expected<double> measure_ping(const BenchOptions& options, const std::string& socket_path,
                              const PingCase& ping_case) {
  const WorkerPoolOptions pool{options.processes, options.threads, ping_case.pings, true};
  const auto samples = run_workers(pool, [&](Worker& worker) -> Outcome {
    ClientOptions client_options;
    client_options.socket_path = socket_path;
    client_options.wait = ping_case.wait;
    Expected<Client> client = Client::connect(client_options);
    if (!client) return client.error();
    CallOptions patient;  // a shared machine may stall for seconds
    patient.timeout_ms = 30'000;
    worker.line_up();
    for (std::uint32_t i = 0; i < ping_case.warm_up + ping_case.pings; ++i) {
      if (ping_case.pause.count() > 0) std::this_thread::sleep_for(ping_case.pause);
      const auto start = std::chrono::steady_clock::now();
      const Status status = client->ping(patient);
      const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
      if (status != Status::ok) return Error{status, std::string("ping: ") + simm::last_error()};
      if (i >= ping_case.warm_up) worker.record(static_cast<std::uint64_t>(spent.count()));
    }
    return Done{};
  });
  if (!samples) return samples.error();
  std::vector<std::uint64_t> all = merge(*samples);
  return static_cast<double>(sample_at(all, 0.5));
}

Outcome run_ipc_benchmark(const BenchOptions& options, ResultPrinter& printer) {
  const Outcome measured = noop(options, printer);
  if (!measured) return measured;
  return descriptors(options, printer);
}

}  // namespace simm::bench
