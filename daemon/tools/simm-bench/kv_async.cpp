#include "daemon/tools/simm-bench/kv_async.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/kv_latency.h"
#include "daemon/tools/simm-bench/kv_session.h"
#include "daemon/tools/simm-bench/page_pattern.h"
#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/worker_pool.h"

namespace simm::bench {
namespace {

constexpr std::size_t kAsyncKeys = 1'024;
constexpr std::uint32_t kAsyncPatienceMs = 30'000;  // a shared machine may stall for seconds

// The session of all threads of a process: made by the first one that asks.
class SharedSession {
public:
  Expected<KvSession*> open(const std::string& socket_path) {
    std::call_once(once_, [&] {
      Expected<KvSession> session = KvSession::connect(socket_path, WaitMode::event);
      if (!session) {
        error_ = session.error();
        return;
      }
      session_.emplace(std::move(*session));
    });
    if (!session_) return error_;
    return &*session_;
  }

private:
  std::once_flag once_;
  std::optional<KvSession> session_;
  Error error_;
};

// Started and waited for by one thread, as a loop of an engine would do.
PageResult get_and_wait(Client& client, const Item& item, const CallOptions& options) {
  PageResult result;
  std::atomic<bool> is_over = false;
  const Expected<std::uint64_t> ticket =
      client.get_async({&item, 1}, {&result, 1}, options,
                       [&](const Completed&) { is_over.store(true, std::memory_order_release); });
  if (!ticket) {
    result.status = ticket.error().status;
    return result;
  }
  while (!is_over.load(std::memory_order_acquire)) client.wait(kAsyncPatienceMs);
  return result;
}

Outcome get_by_one_client(Worker& worker, Client& client, std::size_t calls, bool is_async) {
  const std::vector<std::string> keys =
      bench_keys("async", kAsyncKeys * worker.index(), kAsyncKeys);
  Expected<Region> region = client.allocate_region(kSmallPageBytes);
  if (!region) return region.error();
  const View page(*region, 0, kSmallPageBytes);
  CallOptions options;
  options.timeout_ms = kAsyncPatienceMs;
  for (const std::string& key : keys) {
    fill_page(key, region->data(), kSmallPageBytes);
    const PageResult stored = client.put(key, page, options);
    if (!stored.ok()) return Error{stored.status, std::string("put: ") + simm::last_error()};
  }
  const std::size_t warm_up = calls / 10;
  worker.line_up();
  for (std::size_t i = 0; i < warm_up + calls; ++i) {
    const Item item{keys[i % keys.size()], page, 0, 0};
    const auto start = std::chrono::steady_clock::now();
    const PageResult got =
        is_async ? get_and_wait(client, item, options) : client.get(item.key, item.view, options);
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
    if (!got.ok()) return Error{got.status, std::string("get: ") + simm::last_error()};
    if (count_wrong_bytes(item.key, region->data(), kSmallPageBytes) != 0) {
      return Error{Status::corrupt, "get: wrong bytes"};
    }
    if (i >= warm_up) worker.record(static_cast<std::uint64_t>(spent.count()));
  }
  return Done{};
}

Expected<double> p50_of_gets_us(const BenchOptions& options, const std::string& socket_path,
                                unsigned threads, bool is_async) {
  const std::size_t calls = options.quick ? 500 : 20'000;
  SharedSession shared;
  return measured_us({options.processes, threads, calls, true}, 0.5,
                     [&](Worker& worker) -> Outcome {
                       const Expected<KvSession*> session = shared.open(socket_path);
                       // Nobody may wait at the start line for one that has failed: the process
                       // ends with it.
                       if (!session) return session.error();
                       return get_by_one_client(worker, (*session)->client(), calls, is_async);
                     });
}

}  // namespace

Outcome run_kv_async(const BenchOptions& options, ResultPrinter& printer) {
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = 256ull << 20;
  daemon_options.cpu = daemon_cpu();
  const Expected<MeasuredDaemon> daemon = MeasuredDaemon::open(options, daemon_options);
  if (!daemon) return daemon.error();
  for (const unsigned threads : {1u, 2u, 4u}) {
    Rounds rounds;
    for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
      const Expected<double> sync = p50_of_gets_us(options, daemon->socket_path(), threads, false);
      if (!sync) return sync.error();
      rounds.add_baseline({*sync, false});
      const Expected<double> async = p50_of_gets_us(options, daemon->socket_path(), threads, true);
      if (!async) return async.error();
      rounds.values.push_back(*async);
    }
    printer.print(rounds.result("kv.get_4k_async_p50", "us",
                                {{"page_bytes", kSmallPageBytes},
                                 {"wait", "event"},
                                 {"processes", options.processes},
                                 {"threads_of_the_client", threads}}));
  }
  return Done{};
}

}  // namespace simm::bench
