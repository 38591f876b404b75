#include "daemon/tools/simm-bench/moves_benchmark.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <unordered_set>

#include "daemon/tools/simm-bench/owners_cluster.h"
#include "daemon/tools/simm-bench/prefix_reader.h"
#include "daemon/tools/simm-bench/trace.h"
#include "daemon/tools/simm-bench/trace_generator.h"

namespace simm::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint64_t kWarmUpMs = 30 * 60'000;
constexpr std::uint64_t kMinuteMs = 60'000;
constexpr std::uint64_t kPoolBytesMin = 32ull << 20;
constexpr std::size_t kBlocksGot = 2'000;  // again and again, for the bandwidth

enum class Change : std::uint8_t { none, join, stop, drain };
constexpr const char* kReadingNames[] = {"plain", "immutable", "shared"};
constexpr const char* kChangeNames[] = {"none", "join", "stop", "drain"};

// The trace, cut in two.
struct Load {
  Trace warm_up;
  Trace minute;
  std::uint64_t unique_blocks = 0;           // of the warm-up
  std::vector<std::uint64_t> recent_blocks;  // of its end, each once
};

Expected<Load> load_of(const MovesOptions& options) {
  Expected<Trace> trace = options.trace_path.empty()
                              ? Expected<Trace>(generate_trace({options.seed, 12'031}))
                              : read_trace(options.trace_path);
  if (!trace) return trace.error();
  const std::uint64_t minute_ms = options.quick ? kMinuteMs / 3 : kMinuteMs;
  const std::uint64_t warm_up_ms = options.quick ? 60'000 : kWarmUpMs;
  Load load;
  std::unordered_set<std::uint64_t> blocks;
  for (TraceRequest& request : *trace) {
    if (request.timestamp_ms >= warm_up_ms + minute_ms) break;
    if (request.timestamp_ms >= warm_up_ms) {
      request.timestamp_ms -= warm_up_ms;
      load.minute.push_back(std::move(request));
      continue;
    }
    blocks.insert(request.block_ids.begin(), request.block_ids.end());
    load.warm_up.push_back(std::move(request));
  }
  load.unique_blocks = blocks.size();
  if (load.minute.empty()) {
    return Error{Status::invalid_argument,
                 "the trace is shorter than " + std::to_string(warm_up_ms / 1000) + " s"};
  }
  for (auto at = load.warm_up.rbegin(); at != load.warm_up.rend(); ++at) {
    for (const std::uint64_t block : at->block_ids) {
      if (load.recent_blocks.size() < kBlocksGot && blocks.erase(block) > 0) {
        load.recent_blocks.push_back(block);
      }
    }
  }
  return load;
}

// A warm cluster and its reader.
struct Warm {
  OwnersCluster cluster;
  PrefixReader reader;
};

class Benchmark {
public:
  Benchmark(const MovesOptions& options, const Load& load, ResultPrinter& printer)
      : options_(options), load_(load), printer_(printer) {}

  Outcome measure_hits(Change change) {
    const unsigned owners = owners_before(change);
    if (still_.count(owners) == 0) {
      const Expected<PrefixReader::Counts> still = serve_minute(owners, Change::none);
      if (!still) return still.error();
      still_[owners] = *still;
    }
    const Expected<PrefixReader::Counts> moving = serve_minute(owners, change);
    if (!moving) return moving.error();
    Result result;
    result.name = "moves.prefix_hits";
    result.unit = "1";
    result.value = part_of(*moving);
    result.baseline = part_of(still_[owners]);
    result.params = params(change, owners);
    result.params["points_lost"] = 100 * (*result.baseline - result.value);
    result.params["requests"] = load_.minute.size();
    result.params["failed_puts"] = moving->failed_puts;
    printer_.print(result);
    return Done{};
  }

  // Also before the change and when all has moved: what disturbs the machine disturbs both.
  Outcome measure_bandwidth(Change change) {
    const unsigned owners = owners_before(change);
    Expected<Warm> warm = start(owners, change, Reading::plain);
    if (!warm) return warm.error();
    const double second = options_.quick ? 0.1 : 1;
    const unsigned moving_s = options_.quick ? 5 : std::max(options_.move_seconds, 5u);
    std::vector<double> still;
    std::vector<double> moving;
    for (int i = 0; i < 10; ++i) {
      const Outcome got = get_for(warm->reader, second, still);
      if (!got) return got;
    }
    const Outcome begun = begin(warm->cluster, change);
    if (!begun) return begun;
    for (unsigned i = 0; i < moving_s; ++i) {
      const Outcome got = get_for(warm->reader, second, moving);
      if (!got) return got;
    }
    std::this_thread::sleep_for(milliseconds(options_.quick ? 0 : 10'000));
    for (int i = 0; i < 10; ++i) {
      const Outcome got = get_for(warm->reader, second, still);
      if (!got) return got;
    }
    Result result;
    result.name = "moves.get_bw";
    result.unit = "B/s";
    result.value = median_of(moving);
    result.baseline = median_of(still);
    result.params = params(change, owners);
    result.params["moving"] = moving;
    result.params["still"] = still;
    printer_.print(result);
    return Done{};
  }

  Outcome measure_hottest(Reading reading) {
    Expected<Warm> warm = start(options_.owners, Change::none, reading);
    if (!warm) return warm.error();
    for (const char* name : {"get_pages", "get_bytes"}) counts_before_[name] = {};
    for (auto& [name, counts] : counts_before_) {
      Expected<std::vector<std::uint64_t>> before = warm->cluster.counted(name);
      if (!before) return before.error();
      counts = std::move(*before);
    }
    for (const TraceRequest& request : load_.minute) {
      const Outcome served = warm->reader.serve(request);
      if (!served) return served;
    }
    for (const auto& [name, before] : counts_before_) {
      const Expected<std::vector<std::uint64_t>> after = warm->cluster.counted(name);
      if (!after) return after.error();
      print_hottest(name, before, *after, reading);
    }
    return Done{};
  }

private:
  static double part_of(const PrefixReader::Counts& counts) {
    return static_cast<double>(counts.hit) / static_cast<double>(std::max(counts.blocks, 1ul));
  }
  [[nodiscard]] unsigned owners_before(Change change) const {
    return options_.owners + (change == Change::join || change == Change::none ? 0 : 1);
  }
  // What all owners hold together, of the warm-up.
  [[nodiscard]] std::uint64_t bytes_held() const {
    const auto blocks = static_cast<double>(load_.unique_blocks) * std::min(options_.cache, 1.0);
    return static_cast<std::uint64_t>(blocks) * PrefixReader::kBlockBytes;
  }
  // Of one owner.
  [[nodiscard]] std::uint64_t move_rate(Change change) const {
    if (options_.move_seconds == 0) return OwnersOptions{}.move_bytes_per_s;
    // Who joins gets from all, who leaves gives alone.
    const std::uint64_t senders = change == Change::join ? options_.owners : 1;
    return std::max<std::uint64_t>(
        bytes_held() / (options_.owners + 1) / senders / options_.move_seconds, 1'000'000);
  }
  [[nodiscard]] std::uint64_t pool_bytes() const {
    const auto blocks = static_cast<double>(load_.unique_blocks) * options_.cache;
    const auto bytes = static_cast<std::uint64_t>(blocks) * PrefixReader::kBlockBytes;
    return std::max(bytes / options_.owners, kPoolBytesMin);
  }
  [[nodiscard]] nlohmann::json params(Change change, unsigned owners) const {
    return {{"change", kChangeNames[static_cast<int>(change)]},
            {"owners", owners},
            {"cache", options_.cache},
            {"pool_bytes", pool_bytes()},
            {"move_bytes_per_s", move_rate(change)}};
  }

  Expected<Warm> start(unsigned owners, Change change, Reading reading) const {
    OwnersOptions cluster_options;
    cluster_options.owners = owners;
    cluster_options.pool_bytes = pool_bytes();
    cluster_options.move_bytes_per_s = move_rate(change);
    Expected<OwnersCluster> cluster = OwnersCluster::start(cluster_options);
    if (!cluster) return cluster.error();
    Expected<PrefixReader> reader = PrefixReader::connect(cluster->node().socket_path(), reading);
    if (!reader) return reader.error();
    for (const TraceRequest& request : load_.warm_up) {
      const Outcome served = reader->serve(request);
      if (!served) return served.error();
    }
    return Warm{std::move(*cluster), std::move(*reader)};
  }

  static Outcome begin(OwnersCluster& cluster, Change change) {
    switch (change) {
      case Change::none:
        break;
      case Change::join:
        return cluster.add_owner();
      case Change::stop:
        cluster.stop_first_owner();
        break;
      case Change::drain:
        return cluster.drain_first_owner();
    }
    return Done{};
  }

  // At the pace of the trace.
  Expected<PrefixReader::Counts> serve_minute(unsigned owners, Change change) const {
    Expected<Warm> warm = start(owners, change, Reading::plain);
    if (!warm) return warm.error();
    const PrefixReader::Counts before = warm->reader.counts();
    const Outcome begun = begin(warm->cluster, change);
    if (!begun) return begun.error();
    const auto begun_at = steady_clock::now();
    for (const TraceRequest& request : load_.minute) {
      const std::uint64_t at_ms = request.timestamp_ms / (options_.quick ? 10 : 1);
      std::this_thread::sleep_until(begun_at + milliseconds(at_ms));
      const Outcome served = warm->reader.serve(request);
      if (!served) return served.error();
    }
    PrefixReader::Counts counts = warm->reader.counts();
    counts.blocks -= before.blocks;
    counts.hit -= before.hit;
    counts.failed_puts -= before.failed_puts;
    return counts;
  }

  // Bytes in a second of gets of recent blocks, added to `line`.
  Outcome get_for(PrefixReader& reader, double seconds, std::vector<double>& line) const {
    const std::span<const std::uint64_t> all(load_.recent_blocks);
    const auto begun_at = steady_clock::now();
    std::uint64_t blocks = 0;
    double passed = 0;
    for (std::size_t first = 0; passed < seconds; first += PrefixReader::kBlocksPerCall) {
      if (first >= all.size()) first = 0;
      const auto part =
          all.subspan(first, std::min(PrefixReader::kBlocksPerCall, all.size() - first));
      const Expected<std::uint64_t> got = reader.get(part);
      if (!got) return got.error();
      blocks += *got;
      passed = std::chrono::duration<double>(steady_clock::now() - begun_at).count();
    }
    line.push_back(static_cast<double>(blocks * PrefixReader::kBlockBytes) / passed);
    return Done{};
  }

  void print_hottest(const std::string& name, const std::vector<std::uint64_t>& before,
                     const std::vector<std::uint64_t>& after, Reading reading) {
    std::vector<std::uint64_t> served(after.size());
    std::transform(after.begin(), after.end(), before.begin(), served.begin(), std::minus<>());
    const std::uint64_t sum = std::accumulate(served.begin(), served.end(), std::uint64_t{0});
    Result result;
    result.name = "moves.hottest";
    result.unit = name == "get_bytes" ? "B" : "1";
    result.value = static_cast<double>(*std::max_element(served.begin(), served.end()));
    if (sum > 0) result.baseline = static_cast<double>(sum) / static_cast<double>(served.size());
    result.params = params(Change::none, options_.owners);
    result.params["counts"] = name;
    result.params["reading"] = kReadingNames[static_cast<int>(reading)];
    printer_.print(result);
  }

  const MovesOptions& options_;
  const Load& load_;
  ResultPrinter& printer_;
  std::map<unsigned, PrefixReader::Counts> still_;  // by number of owners: without a change
  std::map<std::string, std::vector<std::uint64_t>> counts_before_;
};

}  // namespace

std::vector<std::string> moves_cases() {
  return {"join", "stop", "drain", "bandwidth", "hottest"};
}

Outcome run_moves_benchmark(const MovesOptions& options, ResultPrinter& printer) {
  const Expected<Load> load = load_of(options);
  if (!load) return load.error();
  Benchmark benchmark(options, *load, printer);
  for (const Change change : {Change::join, Change::stop, Change::drain}) {
    if (options.only != "all" && options.only != kChangeNames[static_cast<int>(change)]) continue;
    const Outcome measured = benchmark.measure_hits(change);
    if (!measured) return measured;
  }
  for (const Change change : {Change::join, Change::drain}) {
    if (options.only != "all" && options.only != "bandwidth") continue;
    const Outcome measured = benchmark.measure_bandwidth(change);
    if (!measured) return measured;
  }
  if (options.only != "all" && options.only != "hottest") return Done{};
  for (const Reading reading : {Reading::plain, Reading::immutable, Reading::shared}) {
    const Outcome measured = benchmark.measure_hottest(reading);
    if (!measured) return measured;
  }
  return Done{};
}

}  // namespace simm::bench
