#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>

#include "libclient/tools/simm-bench/kv_session.h"
#include "libclient/tools/simm-bench/node_benchmark.h"
#include "libclient/tools/simm-bench/subprocess.h"
#include "libclient/tools/simm-bench/worker_pool.h"

namespace simm::bench {
namespace {

// The file that the preloaded probe counts into: tests/bench/allocation_probe.cpp has the same.
struct ProbeSlot {
  std::atomic<std::uint32_t> thread_id;
  std::uint32_t unused;
  std::atomic<std::uint64_t> allocations;
};
constexpr std::size_t kProbeSlots = 1024;
constexpr std::size_t kProbeBytes = kProbeSlots * sizeof(ProbeSlot);
static_assert(sizeof(ProbeSlot) == 16);

class ProbeFile {
public:
  ProbeFile() {
    fd_ = mkostemp(path_.data(), O_CLOEXEC);
    if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(kProbeBytes)) != 0) return;
    void* at = mmap(nullptr, kProbeBytes, PROT_READ, MAP_SHARED, fd_, 0);
    if (at != MAP_FAILED) slots_ = static_cast<const ProbeSlot*>(at);
  }
  ~ProbeFile() {
    if (slots_ != nullptr) munmap(const_cast<ProbeSlot*>(slots_), kProbeBytes);
    if (fd_ >= 0) {
      unlink(path_.c_str());
      close(fd_);
    }
  }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return slots_ != nullptr; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  // Allocations so far of the threads of `pid`, by thread name; none is a count, too.
  [[nodiscard]] std::map<std::string, std::uint64_t> count(pid_t pid) const {
    std::map<std::string, std::uint64_t> counts;
    const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
    std::error_code gone;
    for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
      std::ifstream comm(task.path() / "comm");
      std::string name;
      if (!std::getline(comm, name)) continue;
      counts[name] += count_of(std::stoul(task.path().filename().string()));
    }
    return counts;
  }

private:
  [[nodiscard]] std::uint64_t count_of(std::uint64_t thread_id) const {
    for (std::size_t i = 0; i < kProbeSlots; ++i) {
      if (slots_[i].thread_id.load() == thread_id) return slots_[i].allocations.load();
    }
    return 0;  // it has never allocated
  }

  std::string path_ = "/tmp/simm-allocations.XXXXXX";
  int fd_ = -1;
  const ProbeSlot* slots_ = nullptr;
};

// The threads that serve attach, admin and registration requests and never touch a batch.
bool is_control(const std::string& thread) {
  for (const char* name : {"simmd", "simm-registrar"}) {
    if (thread.rfind(name, 0) == 0) return true;
  }
  return false;
}

// A put, a get and an exists batch in turn.
Outcome send_batches(KvSession& session, const std::vector<std::string>& keys,
                     const std::vector<Item>& items, std::size_t batches) {
  const std::vector<std::string_view> names(keys.begin(), keys.end());
  std::vector<PageResult> results(keys.size());
  CallOptions options;
  options.mode = PutMode::replace;
  options.timeout_ms = 30'000;  // a shared machine may stall for seconds
  for (std::size_t i = 0; i < batches; ++i) {
    Status status = Status::ok;
    if (i % 3 == 0) status = session.client().put(items, results, options);
    if (i % 3 == 1) status = session.client().get(items, results, options);
    if (i % 3 == 2) status = session.client().exists(names, results, options);
    if (status != Status::ok || !results.front().ok()) {
      return Error{status, "batch " + std::to_string(i) + ": " + simm::last_error()};
    }
  }
  return Done{};
}

Outcome count_batches(Worker& worker, const MeasuredDaemon& daemon, const ProbeFile& probe,
                      std::size_t batches, ResultPrinter& printer) {
  Expected<KvSession> session = KvSession::connect(daemon.socket_path(), WaitMode::adaptive);
  if (!session) return session.error();
  const std::vector<std::string> keys = bench_keys("allocations", 0, 8);
  Expected<Region> region = session->client().allocate_region(keys.size() * 4'096);
  if (!region) return region.error();
  const std::vector<Item> items = KvSession::items_for(keys, *region, 4'096);
  worker.line_up();
  const Outcome warm = send_batches(*session, keys, items, 3'000);
  if (!warm) return warm.error();
  const std::map<std::string, std::uint64_t> before = probe.count(daemon.pid());
  const auto counted = [](const auto& thread) { return thread.second != 0; };
  if (std::none_of(before.begin(), before.end(), counted)) {
    return Error{Status::io_error, "the probe counted nothing: is simmd linked statically?"};
  }
  const Outcome sent = send_batches(*session, keys, items, batches);
  if (!sent) return sent.error();
  nlohmann::json threads = nlohmann::json::object();
  std::uint64_t on_data_threads = 0;
  for (const auto& [name, count] : probe.count(daemon.pid())) {
    const auto earlier = before.find(name);
    const std::uint64_t made = count - (earlier == before.end() ? 0 : earlier->second);
    threads[name] = made;
    if (!is_control(name)) on_data_threads += made;
  }
  Result result;
  result.name = "engine.allocations";
  result.value = static_cast<double>(on_data_threads);
  result.unit = "count";
  result.params = {{"batches", batches}, {"path", "local"}, {"threads", threads}};
  printer.print(result);
  return Done{};
}

}  // namespace

Outcome run_allocation_benchmark(const BenchOptions& options, ResultPrinter& printer) {
  if (!options.socket_path.empty()) {
    std::fprintf(stderr, "engine.allocations: left out, it needs a daemon of its own\n");
    return Done{};
  }
  const ProbeFile probe;
  if (!probe.is_open()) return system_error(probe.path(), errno);
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = 256ull << 20;
  daemon_options.environment = {{"LD_PRELOAD", program_path("liballocation_probe.so")},
                                {"SIMM_ALLOCATION_FILE", probe.path()}};
  const Expected<MeasuredDaemon> daemon = MeasuredDaemon::open(options, daemon_options);
  if (!daemon) return daemon.error();
  const std::size_t batches = options.quick ? 3'000 : 100'000;
  const auto samples = run_workers({1, 1, 0, false}, [&](Worker& worker) {
    return count_batches(worker, *daemon, probe, batches, printer);
  });
  if (!samples) return samples.error();
  return Done{};
}

}  // namespace simm::bench
