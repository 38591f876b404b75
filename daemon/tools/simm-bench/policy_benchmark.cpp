#include "daemon/tools/simm-bench/policy_benchmark.h"

#include "daemon/tools/simm-bench/policy_replay.h"
#include "daemon/tools/simm-bench/policy_workloads.h"

namespace simm::bench {
namespace {

constexpr double kCacheParts[] = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5};
constexpr double kQuickParts[] = {0.05, 0.2};
constexpr double kQuickCrowd = 0.02;  // of the crowd

Outcome print_hits(const PolicyReplay& replay, const char* workload, double part,
                   ResultPrinter& printer) {
  const Expected<double> ours = replay.hits(store::EvictionKind::reuse, part);
  if (!ours) return ours.error();
  const Expected<double> lru = replay.hits(store::EvictionKind::lru, part);
  if (!lru) return lru.error();
  const Expected<double> fifo = replay.hits(store::EvictionKind::fifo, part);
  if (!fifo) return fifo.error();
  Result result;
  result.name = "policy.hit_rate";
  result.unit = "1";
  result.value = *ours;
  result.baseline = replay.belady_hits(part);
  result.params = {
      {"workload", workload}, {"cache_part", part}, {"pages", replay.unique_pages()},
      {"lru", *lru},          {"fifo", *fifo},      {"s3_fifo", replay.s3_fifo_hits(part)}};
  printer.print(result);
  return Done{};
}

}  // namespace

std::span<const double> policy_cache_parts() {
  return kCacheParts;
}

std::vector<std::string> policy_cases() {
  std::vector<std::string> names;
  for (const PolicyWorkload& one : policy_workloads()) names.emplace_back(one.name);
  return names;
}

Outcome run_policy_benchmark(const PolicyOptions& options, ResultPrinter& printer) {
  const std::span<const double> parts =
      options.quick ? std::span<const double>(kQuickParts) : policy_cache_parts();
  const double crowd = options.crowd * (options.quick ? kQuickCrowd : 1);
  for (const PolicyWorkload& one : policy_workloads()) {
    if (options.only != kAllCases && options.only != one.name) continue;
    const PolicyReplay replay(one.traffic(options.seed, crowd));
    for (const double part : parts) {
      const Outcome printed = print_hits(replay, one.name, part, printer);
      if (!printed) return printed;
    }
  }
  return Done{};
}

}  // namespace simm::bench
