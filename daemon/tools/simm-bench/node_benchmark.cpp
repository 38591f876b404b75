#include "daemon/tools/simm-bench/node_benchmark.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "daemon/tools/simm-bench/kv_session.h"
#include "daemon/tools/simm-bench/process_cpu.h"
#include "daemon/tools/simm-bench/worker_pool.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kAttachedBytes = 8ull << 30;

// A memory file of that size, mapped and empty: no page of it exists.
struct SparseFile {
  int fd = -1;
  void* address = MAP_FAILED;

  ~SparseFile() {
    if (address != MAP_FAILED) munmap(address, kAttachedBytes);
    if (fd >= 0) close(fd);
  }
};

Outcome open_sparse(SparseFile& file) {
  file.fd = memfd_create("simm-bench", MFD_CLOEXEC);
  if (file.fd < 0 || ftruncate(file.fd, static_cast<off_t>(kAttachedBytes)) != 0) {
    return system_error("memfd of 8 GiB", errno);
  }
  file.address =
      mmap(nullptr, kAttachedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.fd, 0);
  if (file.address == MAP_FAILED) return system_error("mmap of 8 GiB", errno);
  return Done{};
}

// The first worker attaches and stays; the second one is timed.
Outcome attach_second(Worker& worker, const std::string& socket_path, const SparseFile& file) {
  const bool is_second = worker.index() == 1;
  if (is_second) worker.line_up();
  const auto start = std::chrono::steady_clock::now();
  Expected<KvSession> session = KvSession::connect(socket_path, WaitMode::adaptive);
  if (!session) return session.error();
  Expected<Region> region = session->client().register_fd(file.fd, 0, kAttachedBytes, file.address);
  if (!region) return region.error();
  const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
  if (is_second) worker.record(static_cast<std::uint64_t>(spent.count()));
  if (!is_second) worker.line_up();
  worker.line_up();
  return Done{};
}

Outcome attach(const BenchOptions& options, const std::string& socket_path,
               ResultPrinter& printer) {
  SparseFile file;
  const Outcome opened = open_sparse(file);
  if (!opened) return opened;
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 9); ++round) {
    const auto samples = run_workers(
        {2, 1, 1, false}, [&](Worker& worker) { return attach_second(worker, socket_path, file); });
    if (!samples) return samples.error();
    rounds.values.push_back(static_cast<double>(samples->at(1).at(0)) / 1e6);
  }
  printer.print(rounds.result("node.attach", "ms", {{"region_bytes", kAttachedBytes}}));
  return Done{};
}

Outcome idle_cpu(const BenchOptions& options, const MeasuredDaemon& daemon,
                 ResultPrinter& printer) {
  const std::chrono::milliseconds window(options.quick ? 1'000 : 20'000);
  const auto samples = run_workers({1, 1, 1, false}, [&](Worker& worker) -> Outcome {
    Expected<KvSession> session = KvSession::connect(daemon.socket_path(), WaitMode::adaptive);
    if (!session) return session.error();
    const std::vector<std::string> keys = bench_keys("idle", 0, 64);
    const Outcome stored = session->put_patterns(keys, 4'096);
    if (!stored) return stored;
    worker.line_up();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const Expected<std::uint64_t> before_ns = cpu_time_ns(daemon.pid());
    if (!before_ns) return before_ns.error();
    std::this_thread::sleep_for(window);
    const Expected<std::uint64_t> after_ns = cpu_time_ns(daemon.pid());
    if (!after_ns) return after_ns.error();
    worker.record(*after_ns - *before_ns);
    return Done{};
  });
  if (!samples) return samples.error();
  const std::chrono::nanoseconds window_ns = window;
  Rounds rounds;
  rounds.values.push_back(100 * static_cast<double>(samples->at(0).at(0)) /
                          static_cast<double>(window_ns.count()));
  printer.print(rounds.result("daemon.idle_cpu", "percent", {{"window_ms", window.count()}}));
  return Done{};
}

}  // namespace

Outcome run_node_benchmark(const BenchOptions& options, ResultPrinter& printer) {
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = 256ull << 20;
  const Expected<MeasuredDaemon> daemon = MeasuredDaemon::open(options, daemon_options);
  if (!daemon) return daemon.error();
  const Outcome attached = attach(options, daemon->socket_path(), printer);
  if (!attached) return attached;
  return idle_cpu(options, *daemon, printer);
}

}  // namespace simm::bench
