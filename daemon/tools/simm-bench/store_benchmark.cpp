#include "daemon/tools/simm-bench/store_benchmark.h"

#include <algorithm>

#include "daemon/base/choice.h"
#include "daemon/base/choices.h"
#include "daemon/tools/simm-bench/cache_simulation.h"
#include "daemon/tools/simm-bench/changeover_benchmark.h"
#include "daemon/tools/simm-bench/index_benchmark.h"
#include "daemon/tools/simm-bench/objects_benchmark.h"
#include "daemon/tools/simm-bench/restart_benchmark.h"
#include "daemon/tools/simm-bench/space_benchmark.h"
#include "daemon/tools/simm-bench/trace_generator.h"
#include "daemon/tools/simm-bench/trace_statistics.h"

namespace simm::bench {
namespace {

struct NamedStyle {
  const char* name;
  PutStyle style;
};
constexpr NamedStyle kStyles[] = {{"tail_first", {false, false}},
                                  {"tail_first_with_depth", {false, true}},
                                  {"head_first", {true, false}},
                                  {"head_first_with_depth", {true, true}}};

// One trace, a size of the cache.
struct HitRateCase {
  const CacheSimulation& simulation;
  const char* source;
  double part;
  std::uint32_t blocks;
  double optimal;
};

Outcome print_hit_rate(const HitRateCase& one, store::EvictionKind policy, ResultPrinter& printer) {
  const Expected<CacheHits> hits = one.simulation.run(policy, one.blocks);
  if (!hits) return hits.error();
  for (const bool cold : {true, false}) {
    const std::uint64_t looked_up =
        one.simulation.lookups() - (cold ? 0 : one.simulation.unique_blocks());
    if (looked_up == 0) continue;  // nothing is ever used again
    const auto part_of_lookups = [&](double count) {
      return count / static_cast<double>(looked_up);
    };
    Result result;
    result.name = "store.hit_rate";
    result.unit = "1";
    result.value = part_of_lookups(static_cast<double>(hits->prefix));
    result.baseline = part_of_lookups(one.optimal);
    result.params = {{"policy", base::choice_name(base::kEvictionNames, policy)},
                     {"cache_part", one.part},
                     {"cache_blocks", one.blocks},
                     {"cold_misses", cold},
                     {"trace", one.source},
                     {"any_block", part_of_lookups(static_cast<double>(hits->blocks))}};
    printer.print(result);
  }
  return Done{};
}

Outcome print_put_styles(const HitRateCase& one, ResultPrinter& printer) {
  for (const NamedStyle& style : kStyles) {
    const auto hits = one.simulation.run(store::EvictionKind::reuse, one.blocks, style.style);
    if (!hits) return hits.error();
    const auto lookups = static_cast<double>(one.simulation.lookups());
    Result result;
    result.name = "store.hit_rate_by_order";
    result.unit = "1";
    result.value = static_cast<double>(hits->prefix) / lookups;
    result.baseline = one.optimal / lookups;
    result.params = {{"puts", style.name},
                     {"cache_part", one.part},
                     {"trace", one.source},
                     {"any_block", static_cast<double>(hits->blocks) / lookups}};
    printer.print(result);
  }
  return Done{};
}

Outcome measure_hit_rate(const Trace& trace, const char* source, ResultPrinter& printer) {
  const CacheSimulation simulation(trace);
  const auto unique = static_cast<double>(simulation.unique_blocks());
  for (const double part : kCacheParts) {
    const auto blocks = std::max(std::uint32_t{1}, static_cast<std::uint32_t>(part * unique));
    const HitRateCase one{simulation, source, part, blocks,
                          static_cast<double>(simulation.optimal_hits(blocks))};
    for (const auto policy : base::all_choices<store::EvictionKind>(base::kEvictionNames)) {
      const Outcome printed = print_hit_rate(one, policy, printer);
      if (!printed) return printed;
    }
    const Outcome printed = print_put_styles(one, printer);
    if (!printed) return printed;
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
  if (options.quick) {
    restart.arena_bytes = std::uint64_t{256} << 20;
    restart.small_objects = 10'000;
  }
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
