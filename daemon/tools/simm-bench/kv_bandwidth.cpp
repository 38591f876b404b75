#include "daemon/tools/simm-bench/kv_bandwidth.h"

#include "daemon/tools/simm-bench/bandwidth.h"
#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/workload_model.h"

namespace simm::bench {
namespace {

// What this host does not allow (copies out of private memory need a privilege) is no failure.
bool is_left_out(const Error& error) {
  return error.status == Status::unsupported || error.status == Status::permission_denied;
}

Outcome measure_row(const BenchOptions& options, const MeasuredProcess& daemon,
                    const BandwidthCase& row, const BatchShape& shape, ResultPrinter& printer) {
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : 3); ++round) {
    const Expected<Baseline> copy = run_baseline(
        {"baseline_memcpy", std::to_string(shape.page_bytes), std::to_string(shape.pages),
         std::to_string(shape.batches), std::to_string(daemon_cpu())},
        "bytes_per_s");
    if (!copy) return copy.error();
    rounds.add_baseline(*copy);
    const Expected<Bandwidth> moved = measure_bandwidth(options, daemon, row, shape);
    if (!moved && is_left_out(moved.error())) {
      std::fprintf(stderr, "%s: left out: %s\n", row.name, moved.error().context.c_str());
      return Done{};
    }
    if (!moved) return Error{moved.status(), std::string(row.name) + ": " + moved.error().context};
    rounds.values.push_back(moved->bytes_per_s);
  }
  printer.print(rounds.result(row.name, "B/s",
                              {{"page_bytes", shape.page_bytes},
                               {"pages", shape.pages},
                               {"region", region_kind_name(row.kind)},
                               {"processes", options.processes},
                               {"threads", options.threads}}));
  return Done{};
}

}  // namespace

Outcome run_kv_bandwidth(const BenchOptions& options, ResultPrinter& printer) {
  const std::uint64_t workers = std::uint64_t{options.processes} * options.threads;
  const std::uint64_t batch_bytes = batch_shape(options, kDeepSeekR1.object_bytes).bytes();
  DaemonOptions daemon_options;
  daemon_options.pool_bytes = workers * batch_bytes * 2 + (512ull << 20);
  daemon_options.cpu = daemon_cpu();
  daemon_options.allow_foreign = true;
  const Expected<MeasuredDaemon> daemon = MeasuredDaemon::open(options, daemon_options);
  if (!daemon) return daemon.error();
  constexpr BandwidthCase kRows[] = {{"kv.get_bw", RegionKind::shared, false},
                                     {"kv.put_bw", RegionKind::shared, true},
                                     {"kv.get_bw_staged", RegionKind::staged, false},
                                     {"kv.get_bw_foreign", RegionKind::foreign, false}};
  for (const std::uint64_t page_bytes : {kLlama70b.object_bytes, kDeepSeekR1.object_bytes}) {
    for (const BandwidthCase& row : kRows) {
      const Outcome outcome = measure_row(options, {daemon->socket_path(), daemon->pid()}, row,
                                          batch_shape(options, page_bytes), printer);
      if (!outcome) return outcome;
    }
  }
  return Done{};
}

}  // namespace simm::bench
