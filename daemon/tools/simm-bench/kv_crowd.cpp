#include "daemon/tools/simm-bench/kv_crowd.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "daemon/tools/simm-bench/kv_latency.h"
#include "daemon/tools/simm-bench/kv_session.h"
#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/process_group.h"
#include "daemon/tools/simm-bench/shared_array.h"

namespace simm::bench {
namespace {

constexpr unsigned kCrowd = ProcessGroup::kChildrenMax;
constexpr std::chrono::seconds kGatherLimit{120};

// Processes that attach, get something once, and then sleep until they are ended.
class IdleCrowd {
public:
  // Returns when all are there, or with the reason why not.
  Outcome gather(const std::string& socket_path, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      const Outcome forked = processes_.fork_child([&]() -> Outcome {
        Expected<KvSession> session = KvSession::connect(socket_path, WaitMode::event);
        if (!session) return session.error();
        const Outcome stored = session->put_patterns(bench_keys("idle", i, 1), kSmallPageBytes);
        if (!stored) return stored;
        there_[0].fetch_add(1, std::memory_order_relaxed);
        while (true) ::pause();
      });
      if (!forked) return forked;
    }
    const auto end = std::chrono::steady_clock::now() + kGatherLimit;
    while (there_[0].load(std::memory_order_relaxed) < count) {
      const Outcome alive = processes_.check();
      if (!alive) return alive;
      if (std::chrono::steady_clock::now() >= end) {
        return Error{Status::timeout, "crowd: only " + std::to_string(there_[0].load()) + " of " +
                                          std::to_string(count) + " sessions within 120 s"};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return Done{};
  }

private:
  SharedArray<std::atomic<unsigned>> there_{1};
  ProcessGroup processes_;  // ended with it
};

}  // namespace

Outcome run_kv_crowd(const BenchOptions& options, ResultPrinter& printer) {
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = 256ull << 20;
  daemon_options.cpu = daemon_cpu();
  daemon_options.more = {{"session", {{"sessions_max", kCrowd + 64}}}};
  const Expected<MeasuredDaemon> daemon = MeasuredDaemon::open(options, daemon_options);
  if (!daemon) return daemon.error();
  const MeasuredProcess process{daemon->socket_path(), daemon->pid()};
  const unsigned count = options.quick ? 8 : kCrowd;
  for (const WaitMode wait : {WaitMode::spin, WaitMode::event}) {
    const SmallGets gets{wait, 16ull << 20, options.quick ? 500u : 50'000u};
    Rounds rounds;
    for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
      const Expected<SmallGetTimes> alone = measure_small_gets(options, process, gets);
      if (!alone) return alone.error();
      rounds.add_baseline({alone->p50_us, false});
      IdleCrowd crowd;
      const Outcome gathered = crowd.gather(daemon->socket_path(), count);
      if (!gathered) return gathered;
      const Expected<SmallGetTimes> beside = measure_small_gets(options, process, gets);
      if (!beside) return beside.error();
      rounds.values.push_back(beside->p50_us);
    }
    printer.print(rounds.result("kv.get_4k_crowd_p50", "us",
                                {{"idle_sessions", count},
                                 {"page_bytes", kSmallPageBytes},
                                 {"wait", wait == WaitMode::spin ? "spin" : "event"},
                                 {"processes", options.processes},
                                 {"threads", options.threads}}));
  }
  return Done{};
}

}  // namespace simm::bench
