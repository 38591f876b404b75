// simm-bench: measures SiMM and replays traces against it. One subcommand per kind of measurement.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <span>

#include "daemon/tools/simm-bench/bench_options.h"
#include "daemon/tools/simm-bench/fanout_benchmark.h"
#include "daemon/tools/simm-bench/ipc_benchmark.h"
#include "daemon/tools/simm-bench/kv_async.h"
#include "daemon/tools/simm-bench/kv_bandwidth.h"
#include "daemon/tools/simm-bench/kv_crowd.h"
#include "daemon/tools/simm-bench/kv_latency.h"
#include "daemon/tools/simm-bench/kv_victim.h"
#include "daemon/tools/simm-bench/manager_benchmark.h"
#include "daemon/tools/simm-bench/moves_benchmark.h"
#include "daemon/tools/simm-bench/network_benchmark.h"
#include "daemon/tools/simm-bench/node_benchmark.h"
#include "daemon/tools/simm-bench/policy_benchmark.h"
#include "daemon/tools/simm-bench/rdma_benchmark.h"
#include "daemon/tools/simm-bench/replay_command.h"
#include "daemon/tools/simm-bench/store_benchmark.h"
#include "daemon/tools/simm-bench/subprocess.h"
#include "daemon/tools/simm-bench/tcp_benchmark.h"
#include "daemon/tools/simm-bench/trace_stats_command.h"

namespace {

using simm::Outcome;
using simm::bench::ResultPrinter;

struct BenchCase {
  const char* name;
  Outcome (*run)(const simm::bench::BenchOptions&, ResultPrinter&);
};
constexpr BenchCase kKvCases[] = {{"latency", simm::bench::run_kv_latency},
                                  {"bandwidth", simm::bench::run_kv_bandwidth},
                                  {"async", simm::bench::run_kv_async},
                                  {"crowd", simm::bench::run_kv_crowd},
                                  {"victim", simm::bench::run_kv_victim},
                                  {"node", simm::bench::run_node_benchmark},
                                  {"allocations", simm::bench::run_allocation_benchmark}};
constexpr BenchCase kTcpCases[] = {{"bandwidth", simm::bench::run_tcp_bandwidth},
                                   {"latency", simm::bench::run_tcp_latency}};
constexpr BenchCase kRdmaCases[] = {{"bandwidth", simm::bench::run_rdma_bandwidth},
                                    {"latency", simm::bench::run_rdma_latency}};

struct ReportOptions {
  std::string directory = "results";
  std::string format = "png";
  std::vector<std::string> files;
};

struct CompareOptions {
  unsigned rounds = 5;
  std::string cells;
  std::string placement = "free";
  bool quick = false;
  bool json = false;
};

struct Options {
  simm::bench::BenchOptions bench;
  simm::bench::FanoutOptions fanout;
  simm::bench::ManagerBenchOptions manager;
  simm::bench::MovesOptions moves;
  simm::bench::ReplayOptions replay;
  simm::bench::StoreOptions store;
  simm::bench::PolicyOptions policy;
  simm::bench::TraceStatsOptions stats;
  ReportOptions report;
  CompareOptions compare;
};

void add_bench_options(CLI::App& command, simm::bench::BenchOptions& options) {
  command.add_option("--daemon", options.socket_path,
                     "socket of a running daemon; without it one is started and stopped");
  command.add_option("--threads", options.threads, "threads of each client process")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command.add_option("--processes", options.processes, "client processes")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command.add_flag("--quick", options.quick,
                   "as little as shows that it works; figures mean nothing");
  command.add_flag("--json", options.json, "one JSON object per line");
}

void add_device_options(CLI::App& command, simm::bench::BenchOptions& options) {
  command.add_option("--near", options.near_devices, "RDMA devices of the node: NAME[,NAME...]")
      ->delimiter(',');
  command
      .add_option("--far", options.far_devices,
                  "as many of the storage daemon, reached by those in turn")
      ->delimiter(',');
}

void add_case_option(CLI::App& command, std::string& only, std::vector<std::string> names) {
  names.insert(names.begin(), simm::bench::kAllCases);
  command.add_option("--case", only, "what to measure")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
}

std::vector<std::string> names_of(std::span<const BenchCase> cases) {
  std::vector<std::string> names;
  for (const BenchCase& one : cases) names.emplace_back(one.name);
  return names;
}

void add_network_options(CLI::App& command, simm::bench::BenchOptions& options) {
  command.add_flag("--quick", options.quick,
                   "as little as shows that it works; figures mean nothing");
  command.add_flag("--json", options.json, "one JSON object per line");
}

void add_fanout_options(CLI::App& command, simm::bench::FanoutOptions& options) {
  options.bench.processes = 8;
  command.add_option("--daemon", options.bench.socket_path,
                     "socket of a running node of a cluster; without it a cluster is started and "
                     "stopped");
  command.add_option("--admin", options.admin_path,
                     "admin socket of that node; without it admin.sock beside its socket");
  command.add_option("--processes", options.bench.processes, "ranks, a process each")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command.add_flag("--quick", options.bench.quick,
                   "as little as shows that it works; figures mean nothing");
  command.add_flag("--json", options.bench.json, "one JSON object per line");
}

void add_manager_options(CLI::App& command, simm::bench::ManagerBenchOptions& options) {
  command.add_option("--members", options.members, "daemons of the cluster")
      ->check(CLI::Range(10u, 1024u))
      ->capture_default_str();
  command.add_flag("--quick", options.quick, "hardly any rest; figures mean nothing");
  command.add_flag("--json", options.json, "one JSON object per line");
}

void add_replay_options(CLI::App& command, simm::bench::ReplayOptions& options) {
  command.add_option("--trace", options.trace_path, "trace file; without it one is generated");
  command.add_option("--seed", options.seed, "of the generated trace")->capture_default_str();
  command.add_option("--requests", options.requests, "only the first so many requests; 0: all")
      ->capture_default_str();
  command.add_option("--processes", options.processes, "client processes: tensor-parallel ranks")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command.add_option("--model", options.model, "page sizes: deepseek-r1, llama-70b or both")
      ->check(CLI::IsMember({"deepseek-r1", "llama-70b", "both"}))
      ->capture_default_str();
  command.add_option("--scale", options.scale, "divide page sizes by this; 0: as the pool needs")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  command.add_option("--pool-bytes", options.pool_bytes,
                     "pool of the daemon; 0: a third of the free memory, at most 8 GiB");
  command.add_option("--daemon", options.socket_path,
                     "socket of a running daemon; without it one is started and stopped");
  command.add_flag("--quick", options.quick, "a short trace and a small pool");
}

void add_moves_options(CLI::App& command, simm::bench::MovesOptions& options) {
  command.add_option("--trace", options.trace_path, "trace file; without it one is generated");
  command.add_option("--seed", options.seed, "of the generated trace")->capture_default_str();
  add_case_option(command, options.only, simm::bench::moves_cases());
  command.add_option("--owners", options.owners, "storage daemons, before one joins")
      ->check(CLI::Range(2u, 64u))
      ->capture_default_str();
  command
      .add_option("--cache", options.cache,
                  "what they hold together, in unique blocks of the warm-up")
      ->check(CLI::Range(0.01, 10.0))
      ->capture_default_str();
  command
      .add_option("--move-seconds", options.move_seconds,
                  "how long the objects of one may take; 0: as fast as by default")
      ->check(CLI::Range(0u, 600u))
      ->capture_default_str();
  command.add_flag("--quick", options.quick, "a short trace; figures mean nothing");
  command.add_flag("--json", options.json, "one JSON object per line");
}

void add_store_options(CLI::App& command, simm::bench::StoreOptions& options) {
  command.add_option("--trace", options.trace_path, "trace file; without it one is generated");
  command.add_option("--seed", options.seed, "of the generated trace")->capture_default_str();
  add_case_option(command, options.only, simm::bench::store_cases());
  command.add_option("--objects", options.objects, "of the case objects, 440 bytes of memory each")
      ->check(CLI::Range(1'000u, 200'000'000u))
      ->capture_default_str();
  command.add_flag("--quick", options.quick, "little of everything; figures mean nothing");
  command.add_flag("--json", options.json, "one JSON object per line");
}

void add_policy_options(CLI::App& command, simm::bench::PolicyOptions& options) {
  command.add_option("--seed", options.seed, "of the traffic")->capture_default_str();
  add_case_option(command, options.only, simm::bench::policy_cases());
  command.add_option("--crowd", options.crowd, "part of the users, documents and jobs that come")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command.add_flag("--quick", options.quick, "few users; figures mean nothing");
  command.add_flag("--json", options.json, "one JSON object per line");
}

void add_stats_options(CLI::App& command, simm::bench::TraceStatsOptions& options) {
  command.add_option("--trace", options.trace_path, "a trace to describe beside the generated one");
  command.add_option("--seed", options.seed, "of the generated trace")->capture_default_str();
  command.add_option("--requests", options.requests, "of the generated trace")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{10'000'000}))
      ->capture_default_str();
  command.add_option("--write", options.write_path, "write the generated trace to this file");
}

Outcome run_cases(std::span<const BenchCase> cases, const simm::bench::BenchOptions& options,
                  ResultPrinter& printer) {
  for (const BenchCase& one : cases) {
    if (options.only != simm::bench::kAllCases && options.only != one.name) continue;
    const Outcome outcome = one.run(options, printer);
    if (!outcome) return outcome;
  }
  return simm::Done{};
}

// Becomes a script that lies beside this program.
Outcome run_script(const char* name, const std::vector<std::string>& words) {
  const std::string script = simm::bench::program_path(name);
  std::vector<const char*> arguments = {"python3", script.c_str()};
  // The distribution's own interpreter is the one that has its packages.
  if (access("/usr/bin/python3", X_OK) == 0) arguments.front() = "/usr/bin/python3";
  for (const std::string& word : words) arguments.push_back(word.c_str());
  arguments.push_back(nullptr);
  execvp(arguments.front(), const_cast<char* const*>(arguments.data()));
  return simm::system_error("python3", errno);
}

Outcome run_report(const ReportOptions& options) {
  std::vector<std::string> words = {options.directory, options.format};
  words.insert(words.end(), options.files.begin(), options.files.end());
  return run_script("simm-bench-report.py", words);
}

void add_compare_options(CLI::App& command, CompareOptions& options) {
  command.add_option("--rounds", options.rounds, "of each cell, ours and bare by turns")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  command.add_option("--cells", options.cells,
                     "only those with this in their name, as in \"tcp put\" or \"4 KiB\"");
  command
      .add_option("--placement", options.placement,
                  "split: the node on the last CPU, the storage daemon on the first")
      ->check(CLI::IsMember({"free", "split"}))
      ->capture_default_str();
  command.add_flag("--quick", options.quick,
                   "as little as shows that it works; figures mean nothing");
  command.add_flag("--json", options.json, "one JSON object per line");
}

Outcome run_compare(const CompareOptions& options) {
  std::vector<std::string> words = {"--rounds", std::to_string(options.rounds),
                                    "--cells=" + options.cells, "--placement", options.placement};
  if (options.quick) words.emplace_back("--quick");
  if (options.json) words.emplace_back("--json");
  return run_script("simm-bench-compare.py", words);
}

bool wants_json(const Options& options) {
  return options.bench.json || options.fanout.bench.json || options.manager.json ||
         options.store.json || options.policy.json || options.moves.json;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures SiMM and replays traces against it."};
  app.require_subcommand(1);
  Options options;
  CLI::App* ipc = app.add_subcommand("ipc", "The rings: no-op latency, descriptors per second");
  CLI::App* kv = app.add_subcommand("kv", "Latency and bandwidth of get, put and exists; the node");
  CLI::App* tcp = app.add_subcommand("tcp", "Pages of a storage daemon over loopback TCP");
  CLI::App* rdma = app.add_subcommand("rdma", "Pages of a storage daemon over RDMA devices");
  CLI::App* network = app.add_subcommand(
      "network", "Pages over networks with delay, rate and loss, beside raw TCP");
  CLI::App* fanout =
      app.add_subcommand("fanout", "Network bytes when all ranks of a node get the same pages");
  CLI::App* manager =
      app.add_subcommand("manager", "The manager of many members: maps, its restart, its cost");
  CLI::App* store =
      app.add_subcommand("store", "The store itself: hit rate, space, restart, many objects");
  CLI::App* policy = app.add_subcommand(
      "policy", "Eviction policies on traffic of many kinds, beside others and the best one");
  CLI::App* moves =
      app.add_subcommand("moves", "What clients notice when owners come and go; hot owners");
  CLI::App* replay = app.add_subcommand("replay", "Replay a conversation trace, verify every byte");
  CLI::App* report = app.add_subcommand("report", "Plot result files");
  CLI::App* compare = app.add_subcommand(
      "compare", "What users of the Python API get, beside bare connections, by turns");
  add_compare_options(*compare, options.compare);
  CLI::App* stats = app.add_subcommand("trace-stats", "Statistics of traces, side by side");
  add_bench_options(*ipc, options.bench);
  add_bench_options(*kv, options.bench);
  add_manager_options(*manager, options.manager);
  add_case_option(*kv, options.bench.only, names_of(kKvCases));
  add_bench_options(*tcp, options.bench);
  add_case_option(*tcp, options.bench.only, names_of(kTcpCases));
  add_bench_options(*rdma, options.bench);
  add_device_options(*rdma, options.bench);
  add_case_option(*rdma, options.bench.only, names_of(kRdmaCases));
  add_network_options(*network, options.bench);
  add_fanout_options(*fanout, options.fanout);
  add_store_options(*store, options.store);
  add_policy_options(*policy, options.policy);
  add_moves_options(*moves, options.moves);
  add_replay_options(*replay, options.replay);
  add_stats_options(*stats, options.stats);
  report->add_option("files", options.report.files, "result files")->required();
  report->add_option("-o,--out", options.report.directory, "directory of the plots")
      ->capture_default_str();
  report->add_option("--format", options.report.format, "of the plots")
      ->check(CLI::IsMember({"png", "svg"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  ResultPrinter printer(stdout, wants_json(options));
  Outcome outcome = simm::Done{};
  if (ipc->parsed()) outcome = run_ipc_benchmark(options.bench, printer);
  if (kv->parsed()) outcome = run_cases(kKvCases, options.bench, printer);
  if (tcp->parsed()) outcome = run_cases(kTcpCases, options.bench, printer);
  if (rdma->parsed()) outcome = run_cases(kRdmaCases, options.bench, printer);
  if (network->parsed()) outcome = run_network_benchmark(options.bench, printer);
  if (fanout->parsed()) outcome = run_fanout_benchmark(options.fanout, printer);
  if (manager->parsed()) outcome = run_manager_benchmark(options.manager, printer);
  if (store->parsed()) outcome = run_store_benchmark(options.store, printer);
  if (policy->parsed()) outcome = run_policy_benchmark(options.policy, printer);
  if (moves->parsed()) outcome = run_moves_benchmark(options.moves, printer);
  if (replay->parsed()) outcome = run_replay(options.replay);
  if (report->parsed()) outcome = run_report(options.report);
  if (compare->parsed()) outcome = run_compare(options.compare);
  if (stats->parsed()) outcome = run_trace_stats(options.stats);
  if (outcome) return 0;
  std::fprintf(stderr, "simm-bench: %s\n", outcome.error().context.c_str());
  return 1;
}
