#include "daemon/tools/simm-bench/kv_latency.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "daemon/tools/simm-bench/kv_session.h"
#include "daemon/tools/simm-bench/page_pattern.h"
#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/process_cpu.h"
#include "daemon/tools/simm-bench/worker_pool.h"

namespace simm::bench {
namespace {

// A shared machine may stall for seconds; that is a slow call, not a failed one.
CallOptions patient() {
  CallOptions options;
  options.timeout_ms = 30'000;
  return options;
}

std::uint64_t since_ns(std::chrono::steady_clock::time_point start) {
  const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
  return static_cast<std::uint64_t>(spent.count());
}

Error failed_call(const char* what, Status status) {
  return Error{status, std::string(what) + ": " + std::string(status_name(status)) + " " +
                           simm::last_error()};
}

const char* wait_name(WaitMode wait) {
  return wait == WaitMode::spin ? "spin" : "adaptive";
}

// Microseconds of the median call.
Expected<double> p50_us(const BenchOptions& options, std::size_t calls, const WorkerBody& body) {
  return measured_us({options.processes, options.threads, calls, true}, 0.5, body);
}

Outcome exists_128(const BenchOptions& options, const std::string& socket_path,
                   ResultPrinter& printer) {
  const std::size_t calls = options.quick ? 500 : 20'000;
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
    const Expected<double> p50 = p50_us(options, calls, [&](Worker& worker) -> Outcome {
      Expected<KvSession> session = KvSession::connect(socket_path, WaitMode::spin);
      if (!session) return session.error();
      const std::vector<std::string> keys = bench_keys("exists", 128 * worker.index(), 128);
      const Outcome stored = session->put_patterns(keys, kSmallPageBytes);
      if (!stored) return stored;
      const std::vector<std::string_view> names(keys.begin(), keys.end());
      std::vector<PageResult> results(names.size());
      const CallOptions call_options = patient();
      worker.line_up();
      for (std::size_t i = 0; i < calls + calls / 10; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const Status status = session->client().exists(names, results, call_options);
        const std::uint64_t spent_ns = since_ns(start);
        if (status != Status::ok) return failed_call("exists", status);
        if (i >= calls / 10) worker.record(spent_ns);
      }
      const bool all = std::all_of(results.begin(), results.end(),
                                   [](const PageResult& result) { return result.ok(); });
      return all ? Outcome(Done{}) : Outcome(Error{Status::not_found, "exists: a key is gone"});
    });
    if (!p50) return p50.error();
    rounds.values.push_back(*p50);
  }
  printer.print(rounds.result("kv.exists_128", "us",
                              {{"keys", 128},
                               {"wait", "spin"},
                               {"processes", options.processes},
                               {"threads", options.threads}}));
  return Done{};
}

// Keys of fixed length one behind the other, in the order in which they will be asked for: reading
// them must not cost a cache miss that is not the daemon's.
class KeyTape {
public:
  KeyTape(const std::vector<std::string>& keys, std::size_t calls, std::uint64_t seed)
      : key_bytes_(keys.front().size()), text_(calls * key_bytes_, '\0') {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < calls; ++i) {
      const std::string& key = keys[random() % keys.size()];
      std::memcpy(text_.data() + i * key_bytes_, key.data(), key_bytes_);
    }
  }
  [[nodiscard]] std::string_view operator[](std::size_t index) const {
    return std::string_view(text_).substr(index * key_bytes_, key_bytes_);
  }

private:
  std::size_t key_bytes_;
  std::string text_;
};

// Records how long each get took, and behind them the daemon's CPU time before and after.
Outcome get_small_pages(Worker& worker, const MeasuredProcess& daemon, const SmallGets& gets) {
  Expected<KvSession> session = KvSession::connect(daemon.socket_path, gets.wait);
  if (!session) return session.error();
  const std::size_t calls = gets.calls;
  const std::vector<std::string> keys = bench_keys("small", 0, gets.set_bytes / kSmallPageBytes);
  if (worker.index() == 0) {
    const Outcome stored = session->put_patterns(keys, kSmallPageBytes);
    if (!stored) return stored;
  }
  Expected<Region> region = session->client().allocate_region(kSmallPageBytes);
  if (!region) return region.error();
  const View target(*region, 0, kSmallPageBytes);
  const CallOptions call_options = patient();
  const std::size_t warm_up = calls / 10;
  const KeyTape tape(keys, warm_up + calls, worker.index() + 1);
  worker.line_up();
  std::uint64_t cpu_before_ns = 0;
  for (std::size_t i = 0; i < warm_up + calls; ++i) {
    if (i == warm_up) {
      const Expected<std::uint64_t> cpu_ns = cpu_time_ns(daemon.pid);
      if (!cpu_ns) return cpu_ns.error();
      cpu_before_ns = *cpu_ns;
    }
    const auto start = std::chrono::steady_clock::now();
    const PageResult result = session->client().get(tape[i], target, call_options);
    const std::uint64_t spent_ns = since_ns(start);
    if (!result.ok()) return failed_call("get", result.status);
    if (i >= warm_up) worker.record(spent_ns);
    // Looking at the page would warm it up for nobody: now and then is enough.
    if (i % 1'000 == 0 && count_wrong_bytes(tape[i], region->data(), kSmallPageBytes) != 0) {
      return Error{Status::corrupt, "get: wrong bytes"};
    }
  }
  const Expected<std::uint64_t> cpu_after_ns = cpu_time_ns(daemon.pid);
  if (!cpu_after_ns) return cpu_after_ns.error();
  worker.record(cpu_before_ns);
  worker.record(*cpu_after_ns);
  return Done{};
}

Outcome get_4k(const BenchOptions& options, const MeasuredProcess& daemon, ResultPrinter& printer,
               std::uint64_t set_bytes, WaitMode wait) {
  const SmallGets gets{wait, set_bytes, options.quick ? 2'000u : 200'000u};
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 3); ++round) {
    const Expected<Baseline> copy =
        run_baseline({"baseline_memcpy", std::to_string(kSmallPageBytes),
                      std::to_string(set_bytes / kSmallPageBytes), options.quick ? "1" : "5",
                      std::to_string(daemon_cpu()), "random"},
                     "ns_per_copy");
    if (!copy) return copy.error();
    rounds.add_baseline({copy->value / 1e3, copy->noisy});
    const Expected<SmallGetTimes> times = measure_small_gets(options, daemon, gets);
    if (!times) return times.error();
    rounds.values.push_back(times->p50_us);
  }
  // Spinning and sleeping are two figures; only the first has a target.
  const char* name = wait == WaitMode::spin ? "kv.get_4k_p50" : "kv.get_4k_adaptive_p50";
  printer.print(rounds.result(name, "us",
                              {{"working_set_bytes", set_bytes},
                               {"wait", wait_name(wait)},
                               {"processes", options.processes},
                               {"threads", options.threads}}));
  return Done{};
}

}  // namespace

Expected<SmallGetTimes> measure_small_gets(const BenchOptions& options,
                                           const MeasuredProcess& daemon, const SmallGets& gets) {
  auto samples = run_workers({options.processes, options.threads, gets.calls + 2, true},
                             [&](Worker& worker) { return get_small_pages(worker, daemon, gets); });
  if (!samples) return samples.error();
  std::uint64_t first_ns = UINT64_MAX;
  std::uint64_t last_ns = 0;
  for (std::vector<std::uint64_t>& worker : *samples) {
    last_ns = std::max(last_ns, worker.back());
    worker.pop_back();
    first_ns = std::min(first_ns, worker.back());
    worker.pop_back();
  }
  std::vector<std::uint64_t> all = merge(*samples);
  const auto gets_done = static_cast<double>(all.size());
  return SmallGetTimes{static_cast<double>(sample_at(all, 0.5)) / 1e3,
                       static_cast<double>(last_ns - first_ns) / gets_done / 1e3};
}

Outcome run_kv_latency(const BenchOptions& options, ResultPrinter& printer) {
  const std::uint64_t large_set = options.quick ? 128ull << 20 : 1ull << 30;
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = large_set + (512ull << 20);
  daemon_options.cpu = daemon_cpu();
  const Expected<MeasuredDaemon> daemon = MeasuredDaemon::open(options, daemon_options);
  if (!daemon) return daemon.error();
  const std::string& socket_path = daemon->socket_path();
  Outcome outcome = exists_128(options, socket_path, printer);
  if (!outcome) return outcome;
  const MeasuredProcess process{socket_path, daemon->pid()};
  outcome = get_4k(options, process, printer, 64ull << 20, WaitMode::spin);
  if (!outcome) return outcome;
  outcome = get_4k(options, process, printer, 64ull << 20, WaitMode::adaptive);
  if (!outcome) return outcome;
  return get_4k(options, process, printer, large_set, WaitMode::spin);
}

}  // namespace simm::bench
