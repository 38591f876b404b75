#include "daemon/tools/simm-bench/manager_benchmark.h"

#include <algorithm>
#include <optional>
#include <string>

#include "daemon/cluster/cluster_codec.h"
#include "daemon/cluster/hello/frame_wire.h"
#include "daemon/tools/simm-bench/bare_echo.h"
#include "daemon/tools/simm-bench/daemon_process.h"
#include "daemon/tools/simm-bench/loopback_cluster.h"
#include "daemon/tools/simm-bench/member_crowd.h"
#include "daemon/tools/simm-bench/process_cpu.h"
#include "daemon/tools/simm-bench/temporary_directory.h"

namespace simm::bench {
namespace {

constexpr double kLongestS = 60;
// Of all members, where they are many (Manager).
constexpr double kHeartbeatsPerS = 8000;

// With the messages of heartbeats: what of their cost is the kernel's.
Expected<double> bare_echo_us(const ManagerBenchOptions& options) {
  cluster::Heartbeat heartbeat;
  heartbeat.reached = ~cluster::MemberSet{} >> (cluster::kMembersMax - options.members);
  const auto message = cluster::encode(cluster::MemberMessage(heartbeat));
  const auto answer = cluster::encode(cluster::ManagerMessage(cluster::HeartbeatAck{}));
  if (!message || !answer) return Error{Status::invalid_state, "no message of a heartbeat"};
  BareEcho echo;
  echo.connections = options.members;
  echo.messages_per_s = std::min(kHeartbeatsPerS, 10.0 * options.members);
  echo.message_bytes = message->size() + cluster::kFrameOverheadBytes;
  echo.answer_bytes = answer->size() + cluster::kFrameOverheadBytes;
  echo.seconds = options.quick ? 0.2 : 4;
  const auto took_ns = run_bare_echo(echo);
  if (!took_ns) return took_ns.error();
  return *took_ns / 1e3;
}

class ManagerRun {
public:
  ManagerRun(DaemonOptions manager, const std::string& address, const ManagerBenchOptions& options,
             ResultPrinter& printer)
      : manager_options_(std::move(manager)),
        options_(options),
        printer_(printer),
        crowd_(address) {}

  Outcome run() {
    const auto echo = bare_echo_us(options_);
    if (!echo) return echo.error();
    echo_us_ = *echo;
    Outcome done = start_manager();
    const std::uint32_t tenth = std::max(options_.members / 10, 1u);
    const std::uint32_t half = options_.members / 2;
    const std::uint32_t first = options_.members - half - tenth - 1;
    if (done) done = join(first, "");
    if (done) done = join(1, "one");
    if (done) done = join(tenth, "tenth");
    if (done) done = join(half, "half");
    if (done) done = rest();
    if (done) done = restart();
    if (done) done = leave(1, "one");
    if (done) done = leave(tenth, "tenth");
    if (done) done = leave(half, "half");
    return done;
  }

private:
  Outcome start_manager() {
    manager_.reset();
    auto started = DaemonProcess::start(manager_options_);
    if (!started) return started.error();
    manager_.emplace(std::move(*started));
    return Done{};
  }
  // Those of the map. `part`: of the cluster, for the figure's name; empty: no figure.
  Outcome join(std::uint32_t count, const std::string& part) {
    crowd_.add(count);
    owners_ += count;
    return spread("join", part);
  }
  Outcome leave(std::uint32_t count, const std::string& part) {
    crowd_.drain(count);
    owners_ -= count;
    return spread("leave", part);
  }
  Outcome spread(const std::string& what, const std::string& part) {
    const auto seconds =
        crowd_.run_until([this] { return crowd_.all_have_a_map_of(owners_); }, kLongestS);
    if (!seconds) return Error{seconds.status(), "a map everywhere: " + seconds.error().context};
    if (!part.empty()) print("manager." + what + "_" + part, *seconds * 1e3, "ms");
    // The next map is not to wait for this one.
    crowd_.run_for(options_.quick ? 0.1 : 2.5);
    return Done{};
  }
  // All are there, and nothing changes.
  Outcome rest() {
    const double seconds = options_.quick ? 0.5 : 10;
    const auto before_ns = cpu_time_ns(manager_->pid());
    const std::uint64_t heartbeats_before = crowd_.heartbeats();
    crowd_.run_for(seconds);
    const auto after_ns = cpu_time_ns(manager_->pid());
    if (!before_ns || !after_ns) return Error{Status::io_error, "no CPU time of the manager"};
    const auto used_ns = static_cast<double>(*after_ns - *before_ns);
    const auto heartbeats = static_cast<double>(crowd_.heartbeats() - heartbeats_before);
    print("manager.cpu_at_rest", used_ns / seconds / 1e7, "%");
    print("manager.heartbeats", heartbeats / seconds, "1/s");
    if (heartbeats > 0) {
      print("manager.heartbeat_cpu", used_ns / heartbeats / 1e3, "us", echo_us_);
    }
    return Done{};
  }
  // From when the manager is told to stop until all are joined at its successor.
  Outcome restart() {
    if (Outcome started = start_manager(); !started) return started;
    const auto lost = crowd_.run_until([this] { return !crowd_.all_joined(); }, kLongestS);
    const auto back = crowd_.run_until([this] { return crowd_.all_joined(); }, kLongestS);
    if (!lost || !back) return Error{Status::timeout, "not all daemons came back to the manager"};
    print("manager.all_back", *back * 1e3, "ms");
    return Done{};
  }
  void print(const std::string& name, double value, const std::string& unit,
             std::optional<double> baseline = std::nullopt) {
    Result result;
    result.name = name;
    result.value = value;
    result.unit = unit;
    result.baseline = baseline;
    result.params = {{"members", options_.members}};
    printer_.print(result);
  }

  const DaemonOptions manager_options_;
  const ManagerBenchOptions options_;
  ResultPrinter& printer_;
  std::optional<DaemonProcess> manager_;
  MemberCrowd crowd_;
  std::uint32_t owners_ = 0;
  double echo_us_ = 0;
};

}  // namespace

Outcome run_manager_benchmark(const ManagerBenchOptions& options, ResultPrinter& printer) {
  const auto directory = TemporaryDirectory::make();
  if (!directory) return directory.error();
  const auto address = free_address();
  if (!address) return address.error();
  DaemonOptions manager;
  manager.role = "manager";
  manager.more = {
      {"manager", {{"listen", *address}, {"state_file", directory->path() + "/manager.state"}}}};
  return ManagerRun(std::move(manager), *address, options, printer).run();
}

}  // namespace simm::bench
