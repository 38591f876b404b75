#include "daemon/tools/simm-bench/replay_command.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <thread>

#include "daemon/tools/simm-bench/daemon_process.h"
#include "daemon/tools/simm-bench/memory_figures.h"
#include "daemon/tools/simm-bench/process_group.h"
#include "daemon/tools/simm-bench/replay_picture.h"
#include "daemon/tools/simm-bench/replay_rank.h"
#include "daemon/tools/simm-bench/replay_summary.h"
#include "daemon/tools/simm-bench/shared_array.h"
#include "daemon/tools/simm-bench/trace_generator.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kPoolBytesMax = 8ull << 30;
constexpr std::uint64_t kQuickPoolBytes = 1ull << 30;
constexpr std::uint64_t kQuickRequests = 600;
constexpr std::uint64_t kAllRequests = 12'031;

// A third of what the kernel says can be had, at most 8 GiB, in whole 64 MiB.
std::uint64_t default_pool_bytes() {
  const std::uint64_t third = available_bytes() / 3;
  return std::clamp<std::uint64_t>(third, 256ull << 20, kPoolBytesMax) >> 26 << 26;
}

Expected<Trace> trace_for(const ReplayOptions& options) {
  std::uint64_t requests = options.requests;
  if (requests == 0 && options.quick) requests = kQuickRequests;
  if (options.trace_path.empty()) {
    return generate_trace({options.seed, requests == 0 ? kAllRequests : requests});
  }
  Expected<Trace> trace = read_trace(options.trace_path);
  if (trace && requests != 0 && requests < trace->size()) trace->resize(requests);
  return trace;
}

// Says how far the replay is, and how long it still takes: on a terminal in place twice a second,
// else a line every five seconds. Keeps samples for the picture.
class Progress {
public:
  Progress(const ReplayPlan& plan, std::uint64_t requests) : plan_(plan), requests_(requests) {}

  void show(const ReplayBoard& board) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_sample_) {
      next_sample_ = now + std::chrono::milliseconds(100);
      sample(board);
    }
    if (now < next_) return;
    next_ = now + (terminal_ ? std::chrono::milliseconds(500) : std::chrono::seconds(5));
    const ReplaySample at = sampled(board);
    const std::uint64_t done = board.ranks[0].requests;
    const double hit =
        100.0 * static_cast<double>(at.pages_hit) / static_cast<double>(std::max(at.pages, 1ul));
    std::fprintf(stderr,
                 "%s%s: %" PRIu64 " of %" PRIu64
                 " requests, hit rate %.1f %%, %.2f GB moved, "
                 "%.0f s%s%s",
                 terminal_ ? "\r" : "", plan_.model.name, done, requests_, hit,
                 static_cast<double>(at.bytes_moved) / 1e9, at.seconds,
                 remaining(done, at.seconds).c_str(), terminal_ ? "   " : "\n");
    std::fflush(stderr);
  }
  // Once more at the end; then all of them.
  std::vector<ReplaySample> samples(const ReplayBoard& board) {
    sample(board);
    return std::move(samples_);
  }
  void end() const {
    if (terminal_) std::fputc('\n', stderr);
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  // Requests take alike: as long as those that are done took.
  [[nodiscard]] std::string remaining(std::uint64_t done, double seconds) const {
    if (done == 0 || done >= requests_) return "";
    const double left_s =
        seconds * static_cast<double>(requests_ - done) / static_cast<double>(done);
    return ", about " + std::to_string(static_cast<std::uint64_t>(left_s) + 1) + " s to go";
  }
  [[nodiscard]] ReplaySample sampled(const ReplayBoard& board) const {
    ReplaySample at{seconds(), board.ranks[0].pages, board.ranks[0].pages_hit, 0};
    for (unsigned rank = 0; rank < plan_.ranks; ++rank) {
      at.bytes_moved += board.ranks[rank].bytes_stored + board.ranks[rank].bytes_fetched;
    }
    return at;
  }
  void sample(const ReplayBoard& board) {
    if (samples_.size() < kSamplesMax) samples_.push_back(sampled(board));
  }

  static constexpr std::size_t kSamplesMax = 100'000;  // nearly three hours
  const ReplayPlan& plan_;
  std::uint64_t requests_;
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point next_ = start_ + std::chrono::seconds(1);
  std::chrono::steady_clock::time_point next_sample_ = start_;
  std::vector<ReplaySample> samples_;
};

ReplaySummary summary_of(const ReplayPlan& plan, ReplayBoard& board,
                         SharedArray<std::uint64_t>& fetch_ns) {
  ReplaySummary summary;
  summary.model = plan.model.name;
  summary.scale = plan.scale;
  summary.object_bytes = plan.object_bytes;
  summary.requests = board.ranks[0].requests;
  summary.pages = board.ranks[0].pages;
  summary.pages_hit = board.ranks[0].pages_hit;
  summary.best_pages_hit = plan.best_pages_hit;
  summary.unique_bytes = plan.unique_bytes;
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    const RankCounters& counters = board.ranks[rank];
    summary.add(counters);
    summary.pages_hit = std::min(summary.pages_hit, counters.pages_hit.load());
    const auto samples = fetch_ns.part(rank * plan.fetch_calls_max, counters.fetch_calls);
    summary.fetch_ns.insert(summary.fetch_ns.end(), samples.begin(), samples.end());
  }
  return summary;
}

Expected<ReplaySummary> replay_model(const Trace& trace, const ReplayPlan& plan,
                                     const std::string& socket_path) {
  SharedArray<ReplayBoard> board(1);
  SharedArray<std::uint64_t> fetch_ns(plan.ranks * plan.fetch_calls_max);
  init_shared_barrier(board[0].barrier, plan.ranks);
  board[0].prefix[0] = ~std::uint64_t{0};
  // A name of its own: what an earlier replay left behind must not count as a hit.
  const std::string name_space = std::string("replay-") + plan.model.name + "-" +
                                 std::to_string(getpid()) + "-" + std::to_string(time(nullptr));
  ProcessGroup ranks;
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    const Outcome forked = ranks.fork_child([&] {
      return replay_as_rank(trace, plan, {socket_path, name_space, rank}, board[0],
                            fetch_ns.part(rank * plan.fetch_calls_max, plan.fetch_calls_max));
    });
    if (!forked) return forked.error();
  }
  Progress progress(plan, trace.size());
  const Outcome ended = ranks.wait([&] { progress.show(board[0]); });
  const double seconds = progress.seconds();
  progress.end();
  if (!ended) return ended.error();
  ReplaySummary summary = summary_of(plan, board[0], fetch_ns);
  summary.seconds = seconds;
  summary.samples = progress.samples(board[0]);
  return summary;
}

}  // namespace

Outcome run_replay(const ReplayOptions& options) {
  const Expected<std::vector<WorkloadModel>> models = models_named(options.model);
  if (!models) return models.error();
  if (options.processes == 0 || options.processes > kReplayRanksMax) {
    return Error{Status::invalid_argument, "--processes " + std::to_string(options.processes) +
                                               ": use 1 to " + std::to_string(kReplayRanksMax)};
  }
  const Expected<Trace> trace = trace_for(options);
  if (!trace) return trace.error();
  std::uint64_t pool_bytes = options.pool_bytes;
  if (pool_bytes == 0) {
    pool_bytes =
        options.quick ? std::min(kQuickPoolBytes, default_pool_bytes()) : default_pool_bytes();
  }
  std::vector<ReplaySummary> summaries;
  for (const WorkloadModel& model : *models) {
    const ReplayPlan plan =
        plan_replay(*trace, model, options.processes, pool_bytes, options.scale);
    std::fprintf(stderr,
                 "%s: %u processes, pages scaled down by %" PRIu64 " to %" PRIu64
                 " bytes, %.2f GB unique, pool %.2f GB\n",
                 model.name, plan.ranks, plan.scale, plan.object_bytes,
                 static_cast<double>(plan.unique_bytes) / 1e9,
                 static_cast<double>(pool_bytes) / 1e9);
    std::string socket_path = options.socket_path;
    std::optional<DaemonProcess> own;
    if (socket_path.empty()) {
      DaemonOptions daemon_options;
      daemon_options.pool_bytes = pool_bytes;
      Expected<DaemonProcess> started = DaemonProcess::start(daemon_options);
      if (!started) return started.error();
      own.emplace(std::move(*started));
      socket_path = own->socket_path();
    }
    Expected<ReplaySummary> summary = replay_model(*trace, plan, socket_path);
    if (!summary) return summary.error();
    summaries.push_back(std::move(*summary));
  }
  const nlohmann::json total = total_of(summaries);
  std::printf("%s%s%s\n", replay_table(summaries).c_str(), replay_picture(summaries).c_str(),
              total.dump().c_str());
  if (total["bytes_wrong"] != 0) {
    return Error{Status::corrupt, "a get returned wrong bytes: see bytes_wrong above"};
  }
  return Done{};
}

}  // namespace simm::bench
