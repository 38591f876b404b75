#include "daemon/tools/simm-bench/kv_victim.h"

#include <chrono>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/bell_storm.h"
#include "daemon/tools/simm-bench/kv_latency.h"
#include "daemon/tools/simm-bench/kv_session.h"
#include "daemon/tools/simm-bench/page_pattern.h"
#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/worker_pool.h"

namespace simm::bench {
namespace {

constexpr std::size_t kKeys = 1'024;

// Sleeps between its calls' submission and completion, as a client does that shares its CPU.
Outcome get_pages(Worker& worker, const std::string& socket_path, std::size_t calls) {
  Expected<KvSession> session = KvSession::connect(socket_path, WaitMode::event);
  if (!session) return session.error();
  const std::vector<std::string> keys = bench_keys("victim", kKeys * worker.index(), kKeys);
  const Outcome stored = session->put_patterns(keys, kSmallPageBytes);
  if (!stored) return stored;
  Expected<Region> region = session->client().allocate_region(kSmallPageBytes);
  if (!region) return region.error();
  CallOptions patient;  // a shared machine may stall for seconds
  patient.timeout_ms = 30'000;
  const std::size_t warm_up = calls / 10;
  worker.line_up();
  for (std::size_t i = 0; i < warm_up + calls; ++i) {
    const std::string& key = keys[i % keys.size()];
    const auto start = std::chrono::steady_clock::now();
    const PageResult got = session->client().get(key, View(*region, 0, kSmallPageBytes), patient);
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
    if (!got.ok()) return Error{got.status, std::string("victim: ") + simm::last_error()};
    if (count_wrong_bytes(key, region->data(), kSmallPageBytes) != 0) {
      return Error{Status::corrupt, "victim: wrong bytes"};
    }
    if (i >= warm_up) worker.record(static_cast<std::uint64_t>(spent.count()));
  }
  return Done{};
}

Expected<double> p99_us(const BenchOptions& options, const std::string& socket_path) {
  const std::size_t calls = options.quick ? 1'000 : 50'000;
  return measured_us({options.processes, options.threads, calls, true}, 0.99,
                     [&](Worker& worker) { return get_pages(worker, socket_path, calls); });
}

Outcome victim(const BenchOptions& options, const MeasuredDaemon& daemon,
               const std::string& storm_socket, StormPriority priority, ResultPrinter& printer) {
  Rounds rounds;
  std::uint64_t rings = 0;
  // The first CPU that neither daemon nor victim use; with two CPUs, the victim's.
  const int storm_cpu = worker_cpu(options.processes * options.threads);
  for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
    const Expected<double> alone = p99_us(options, daemon.socket_path());
    if (!alone) return alone.error();
    rounds.add_baseline({*alone, false});
    BellStorm storm;
    const Outcome started = BellStorm::start(storm, storm_socket, storm_cpu, priority);
    if (!started) return started;
    const Expected<double> beside = p99_us(options, daemon.socket_path());
    if (!beside) return beside.error();
    rounds.values.push_back(*beside);
    rings += storm.rings();
  }
  const bool shares_cpu = storm_cpu == worker_cpu(0);
  printer.print(
      rounds.result("kv.victim_p99", "us",
                    {{"page_bytes", kSmallPageBytes},
                     {"wait", "event"},
                     {"attacker_priority", priority == StormPriority::idle ? "idle" : "normal"},
                     {"attacker_on_victims_cpu", shares_cpu},
                     {"rings", rings},
                     {"processes", options.processes},
                     {"threads", options.threads}}));
  return Done{};
}

}  // namespace

Outcome run_kv_victim(const BenchOptions& options, ResultPrinter& printer) {
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = 256ull << 20;
  daemon_options.cpu = daemon_cpu();
  daemon_options.has_other_tenant = true;
  const Expected<MeasuredDaemon> daemon = MeasuredDaemon::open(options, daemon_options);
  if (!daemon) return daemon.error();
  for (const StormPriority priority : {StormPriority::idle, StormPriority::normal}) {
    const Outcome done = victim(options, *daemon, daemon->other_socket_path(), priority, printer);
    if (!done) return done;
  }
  return Done{};
}

}  // namespace simm::bench
