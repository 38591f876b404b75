#include "libclient/tools/simm-bench/store_benchmark.h"

#include <algorithm>

#include "libclient/tools/simm-bench/cache_simulation.h"
#include "libclient/tools/simm-bench/changeover_benchmark.h"
#include "libclient/tools/simm-bench/index_benchmark.h"
#include "libclient/tools/simm-bench/objects_benchmark.h"
#include "libclient/tools/simm-bench/restart_benchmark.h"
#include "libclient/tools/simm-bench/space_benchmark.h"
#include "libclient/tools/simm-bench/trace_generator.h"
#include "libclient/tools/simm-bench/trace_statistics.h"

namespace simm::bench {
namespace {

struct NamedPolicy {
  const char* name;
  store::EvictionKind kind;
};
constexpr NamedPolicy kPolicies[] = {{"reuse", store::EvictionKind::reuse},
                                     {"lru", store::EvictionKind::lru},
                                     {"fifo", store::EvictionKind::fifo}};

Outcome measure_hit_rate(const Trace& trace, const char* source, ResultPrinter& printer) {
  const CacheSimulation simulation(trace);
  const std::uint64_t cold_misses = simulation.unique_blocks();
  for (const double part : kCacheParts) {
    const auto blocks = std::max(
        std::uint32_t{1}, static_cast<std::uint32_t>(part * static_cast<double>(cold_misses)));
    const auto optimal = static_cast<double>(simulation.optimal_hits(blocks));
    for (const NamedPolicy& policy : kPolicies) {
      const Expected<CacheHits> hits = simulation.run(policy.kind, blocks);
      if (!hits) return hits.error();
      for (const bool cold : {true, false}) {
        const std::uint64_t looked_up = simulation.lookups() - (cold ? 0 : cold_misses);
        if (looked_up == 0) continue;  // nothing is ever used again
        const auto part_of_lookups = [&](double count) {
          return count / static_cast<double>(looked_up);
        };
        Result result;
        result.name = "store.hit_rate";
        result.unit = "1";
        result.value = part_of_lookups(static_cast<double>(hits->prefix));
        result.baseline = part_of_lookups(optimal);
        result.params = {{"policy", policy.name},
                         {"cache_part", part},
                         {"cache_blocks", blocks},
                         {"cold_misses", cold},
                         {"trace", source},
                         {"any_block", part_of_lookups(static_cast<double>(hits->blocks))}};
        printer.print(result);
      }
    }
  }
  return Done{};
}

Outcome measure_policies(const StoreOptions& options, ResultPrinter& printer) {
  if (!options.trace_path.empty()) {
    const Expected<Trace> trace = read_trace(options.trace_path);
    if (!trace) return trace.error();
    return measure_hit_rate(*trace, "file", printer);
  }
  TraceGeneratorOptions generator;
  generator.seed = options.seed;
  if (options.quick) generator.requests = 300;
  return measure_hit_rate(generate_trace(generator), "generated", printer);
}

Outcome measure_index_of(const StoreOptions& options, ResultPrinter& printer) {
  constexpr std::uint32_t kQuickEntries = 100'000;
  constexpr std::uint32_t kEntries = 10'000'000;
  return measure_index(options.quick ? kQuickEntries : kEntries, printer);
}

Outcome measure_restart_of(const StoreOptions& options, ResultPrinter& printer) {
  RestartOptions restart;
  if (options.quick) restart.arena_bytes = std::uint64_t{256} << 20;
  return measure_restart(restart, printer);
}

Outcome measure_space_of(const StoreOptions& options, ResultPrinter& printer) {
  SpaceOptions space;
  space.seed = options.seed;
  if (options.quick) {
    space.arena_bytes = std::uint64_t{512} << 20;
    space.rounds = 2;
  }
  return measure_space(space, printer);
}

Outcome measure_changeover_of(const StoreOptions& options, ResultPrinter& printer) {
  ChangeoverOptions changeover;
  changeover.seed = options.seed;
  if (options.quick) changeover.arena_bytes = std::uint64_t{512} << 20;
  return measure_changeover(changeover, printer);
}

Outcome measure_objects_of(const StoreOptions& options, ResultPrinter& printer) {
  constexpr std::uint32_t kQuickObjects = 50'000;
  return measure_objects(options.quick ? std::min(options.objects, kQuickObjects) : options.objects,
                         printer);
}

struct StoreCase {
  const char* name;
  Outcome (*measure)(const StoreOptions&, ResultPrinter&);
};
constexpr StoreCase kCases[] = {
    {"hit_rate", measure_policies},        {"index", measure_index_of},
    {"restart", measure_restart_of},       {"efficiency", measure_space_of},
    {"changeover", measure_changeover_of}, {"objects", measure_objects_of}};

}  // namespace

std::vector<std::string> store_cases() {
  std::vector<std::string> names;
  for (const StoreCase& one : kCases) names.emplace_back(one.name);
  return names;
}

Outcome run_store_benchmark(const StoreOptions& options, ResultPrinter& printer) {
  for (const StoreCase& one : kCases) {
    if (options.only != kAllCases && options.only != one.name) continue;
    const Outcome measured = one.measure(options, printer);
    if (!measured) return measured;
  }
  return Done{};
}

}  // namespace simm::bench
