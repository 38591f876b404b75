#include "daemon/tools/simm-bench/network_benchmark.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "daemon/tools/simm-bench/emulated_network.h"
#include "daemon/tools/simm-bench/kv_session.h"
#include "daemon/tools/simm-bench/loopback_cluster.h"
#include "daemon/tools/simm-bench/page_pattern.h"
#include "daemon/tools/simm-bench/raw_stream.h"

namespace simm::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::uint64_t kPageBytes = 1 << 20;
constexpr std::size_t kPages = 16;
constexpr std::uint64_t kSmallBytes = 4096;
constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kFar = 1;
constexpr std::size_t kNear = 0;
// As many as the daemons have to a shard unless told otherwise.
constexpr std::size_t kConnections = 2;

struct Line {
  std::uint64_t rtt_us;
  std::uint64_t mbit_per_s;  // 0: without limit
  std::uint32_t loss_ppm;
};
constexpr Line kLines[] = {{0, 0, 0},         {100, 0, 0},         {500, 0, 0},
                           {100, 10'000, 0},  {2'000, 10'000, 0},  {10'000, 10'000, 0},
                           {100, 1'000, 0},   {2'000, 1'000, 0},   {10'000, 1'000, 0},
                           {500, 1'000, 100}, {500, 1'000, 1'000}, {500, 1'000, 10'000},
                           {500, 300, 0},     {500, 50, 0}};
constexpr Line kQuickLines[] = {{500, 300, 10'000}};

LineShape shape_of(const Line& line) {
  constexpr std::uint64_t kLeastQueueBytes = 1 << 20;
  LineShape shape;
  shape.delay_ns = line.rtt_us * 1'000 / 2;
  shape.bytes_per_s = line.mbit_per_s * 125'000;
  shape.queue_bytes = std::max(kLeastQueueBytes, shape.bytes_per_s * line.rtt_us / 1'000'000);
  shape.loss_ppm = line.loss_ppm;
  return shape;
}

// The fast lines have the frames of fast networks, and do not measure who carries them.
std::uint32_t mtu_of(const Line& line) {
  return line.mbit_per_s == 0 || line.mbit_per_s > 1'000 ? 9'000 : 1'500;
}

double since_s(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

// Pages of one line: each call answers how many seconds it took, and counts what failed.
class NetworkPages {
public:
  static Expected<NetworkPages> open(const std::string& socket_path) {
    Expected<KvSession> session = KvSession::connect(socket_path, WaitMode::adaptive);
    if (!session) return session.error();
    Expected<Region> region = session->client().allocate_region(kPages * kPageBytes);
    if (!region) return region.error();
    NetworkPages pages(std::move(*session), std::move(*region));
    const Outcome small = pages.session_.put_patterns(pages.small_, kSmallBytes);
    if (!small) return small.error();
    return pages;
  }

  // New pages in place of those before.
  Expected<double> put() {
    // A page whose put has failed is not there to be removed.
    const std::vector<std::string_view> old(keys_.begin(), keys_.end());
    if (!old.empty()) static_cast<void>(session_.client().remove(old, results_));
    keys_ = bench_keys("network", next_, kPages);
    next_ += kPages;
    for (std::size_t i = 0; i < kPages; ++i) {
      fill_page(keys_[i], region_.data() + i * kPageBytes, kPageBytes);
    }
    const std::vector<Item> items = KvSession::items_for(keys_, region_, kPageBytes);
    const auto start = steady_clock::now();
    static_cast<void>(session_.client().put(items, results_));
    const double spent_s = since_s(start);
    failed_ += count_failed();
    return spent_s;
  }
  // Those that the last put has stored; all others are failed, as they are in the put.
  Expected<double> get() {
    const std::vector<Item> items = KvSession::items_for(keys_, region_, kPageBytes);
    const auto start = steady_clock::now();
    static_cast<void>(session_.client().get(items, results_));
    const double spent_s = since_s(start);
    failed_ += count_failed();
    for (std::size_t i = 0; i < kPages; ++i) {
      const std::byte* const page = region_.data() + i * kPageBytes;
      if (results_[i].ok() && count_wrong_bytes(keys_[i], page, kPageBytes) > 0) {
        return Error{Status::corrupt, "network: wrong bytes of key " + keys_[i]};
      }
    }
    return spent_s;
  }
  Expected<double> get_small() {
    const View view(region_, 0, kSmallBytes);
    const auto start = steady_clock::now();
    if (!session_.client().get(small_.front(), view).ok()) ++failed_;
    return since_s(start);
  }

  [[nodiscard]] std::size_t take_failed() noexcept { return std::exchange(failed_, 0); }

private:
  NetworkPages(KvSession session, Region region)
      : session_(std::move(session)), region_(std::move(region)), results_(kPages) {}
  [[nodiscard]] std::size_t count_failed() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(results_, [](const PageResult& result) { return !result.ok(); }));
  }

  KvSession session_;
  Region region_;
  std::vector<PageResult> results_;
  std::vector<std::string> small_ = bench_keys("network-small", 0, 1);
  std::vector<std::string> keys_;
  std::size_t next_ = 0;
  std::size_t failed_ = 0;
};

// The median call of a round: several, where they are short.
template <typename Call>
Expected<double> median_call(const BenchOptions& options, Call&& call) {
  const double enough_s = options.quick ? 0.0 : 0.3;
  constexpr std::size_t kCallsMax = 100;
  std::vector<double> calls;
  for (double spent_s = 0; calls.empty() || (spent_s < enough_s && calls.size() < kCallsMax);) {
    const Expected<double> one = call();
    if (!one) return one.error();
    calls.push_back(*one);
    spent_s += *one;
  }
  return median_of(calls);
}

struct Row {
  const char* name;
  const char* unit;
  std::uint64_t bytes;  // of a call
  bool is_put;
  Expected<double> (NetworkPages::*call)();

  // The figure of a call of so many seconds.
  [[nodiscard]] double figure(double seconds) const {
    return bytes == kSmallBytes ? seconds * 1e6 : static_cast<double>(bytes) / seconds;
  }
};
constexpr Row kRows[] = {
    {"network.put_bw", "B/s", kPages* kPageBytes, true, &NetworkPages::put},
    {"network.get_bw", "B/s", kPages* kPageBytes, false, &NetworkPages::get},
    {"network.get_4k_p50", "us", kSmallBytes, false, &NetworkPages::get_small}};

Outcome measure_row(const BenchOptions& options, const Line& line, const Row& row, RawStream& raw,
                    NetworkPages& pages, ResultPrinter& printer) {
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
    const Expected<double> bare = median_call(options, [&]() -> Expected<double> {
      const auto start = steady_clock::now();
      const Outcome done = row.is_put ? raw.put(row.bytes) : raw.get(row.bytes);
      if (!done) return done.error();
      return since_s(start);
    });
    if (!bare) return bare.error();
    rounds.add_baseline({row.figure(*bare), false});
    const Expected<double> own = median_call(options, [&] { return (pages.*row.call)(); });
    if (!own) return own.error();
    rounds.values.push_back(row.figure(*own));
  }
  printer.print(rounds.result(row.name, row.unit,
                              {{"rtt_ms", static_cast<double>(line.rtt_us) / 1e3},
                               {"mbit_per_s", line.mbit_per_s},
                               {"loss_percent", line.loss_ppm / 1e4},
                               {"bytes", row.bytes},
                               {"failed_pages", pages.take_failed()}}));
  return Done{};
}

Outcome measure_line(const BenchOptions& options, const Line& line, ResultPrinter& printer) {
  Expected<EmulatedNetwork> network = EmulatedNetwork::start(2, kSeed, mtu_of(line));
  if (!network) return network.error();
  const NetworkPlace near{network->path(kNear), EmulatedNetwork::address(kNear)};
  const NetworkPlace far{network->path(kFar), EmulatedNetwork::address(kFar)};
  ClusterOptions cluster_options;
  cluster_options.near_place = near;
  cluster_options.far_place = far;
  const Expected<LoopbackCluster> cluster = LoopbackCluster::start(cluster_options);
  if (!cluster) return cluster.error();
  Expected<NetworkPages> pages = NetworkPages::open(cluster->node().socket_path());
  if (!pages) return pages.error();
  Expected<RawStream> raw =
      RawStream::start({far.path, far.address}, {near.path, near.address}, kConnections);
  if (!raw) return raw.error();
  // A cluster begins on a good line: what joining costs on a bad one is not measured here.
  network->shape_all(shape_of(line));
  for (const Row& row : kRows) {
    const Outcome outcome = measure_row(options, line, row, *raw, *pages, printer);
    if (!outcome) return outcome;
  }
  return Done{};
}

}  // namespace

Outcome run_network_benchmark(const BenchOptions& options, ResultPrinter& printer) {
  const std::span<const Line> lines =
      options.quick ? std::span<const Line>(kQuickLines) : std::span<const Line>(kLines);
  for (const Line& line : lines) {
    const Outcome outcome = measure_line(options, line, printer);
    if (!outcome) return outcome;
  }
  return Done{};
}

}  // namespace simm::bench
