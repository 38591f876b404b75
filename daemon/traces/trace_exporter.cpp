#include "daemon/traces/trace_exporter.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "daemon/base/sanitize.h"
#include "daemon/base/wall_time.h"
#include "simm/check.h"

namespace simm::traces {
namespace {

constexpr base::TimeNs kLookNs = 100 * base::kNsPerMs;
constexpr const char* kPath = "/v1/traces";  // of OTLP/HTTP

std::uint64_t loaded(const std::atomic<std::uint64_t>& counter) noexcept {
  return counter.load(std::memory_order_relaxed);
}

// Names the key, its value and the remedy.
std::string unreached(const http::HttpEndpoint& to, const std::string& authorities,
                      const http::HttpFailure& failure) {
  const std::string endpoint = "trace.endpoint = " + to.text();
  const std::string why = " (" + base::sanitize(failure.error.context) + ")";
  switch (failure.cause) {
    case http::HttpCause::untrusted:
      return "trace.ca_file = " + (authorities.empty() ? "(those of the system)" : authorities) +
             " does not vouch for " + to.text() + why +
             ": name the PEM file of the authority that has signed the receiver's certificate";
    case http::HttpCause::another_name:
      return endpoint + ": its certificate is another host's" + why + ": write a name that it has";
    case http::HttpCause::refused:
      return endpoint + ": it asks for a certificate of the daemon" + why +
             ": let it take spans without one, or name a collector on this host";
    case http::HttpCause::no_tls:
      return endpoint + why + ": if it does not speak TLS, write http://";
    case http::HttpCause::hung_up:
      return endpoint + ": it hangs up: if it speaks TLS, write https://";
    case http::HttpCause::other:
      break;
  }
  return endpoint + why + ": start a receiver of OTLP over HTTP there, or name where it is";
}

}  // namespace

Expected<std::unique_ptr<TraceExporter>> TraceExporter::make(Setup setup) {
  const auto& wanted = setup.config.trace;
  if (wanted.endpoint.empty()) {
    // Zeros on the metrics page, not gaps.
    (void)ExporterCounters(setup.counters);
    return std::unique_ptr<TraceExporter>();
  }
  auto to = http::HttpEndpoint::parse(wanted.endpoint);
  if (!to) return Error{to.status(), "trace.endpoint: " + to.error().context};
  auto client = http::HttpClient::make({wanted.ca_file, "", ""});
  if (!client) return Error{client.status(), "trace.ca_file: " + client.error().context};
  return std::unique_ptr<TraceExporter>(
      new TraceExporter(std::move(setup), std::move(*to), std::move(*client)));
}

TraceExporter::TraceExporter(Setup setup, http::HttpEndpoint to,
                             std::unique_ptr<http::HttpClient> client)
    : setup_(std::move(setup)),
      to_(std::move(to)),
      client_(std::move(client)),
      counters_(setup_.counters),
      timer_(setup_.io) {}

TraceExporter::~TraceExporter() {
  stop();
}

void TraceExporter::watch(const std::vector<control::AgentTracing>& agents) {
  for (const control::AgentTracing& agent : agents) {
    exports_.push_back(std::make_unique<base::TraceExport>(base::TraceExport::Wish{
        setup_.config.trace.one_in, setup_.config.trace.per_second, setup_.random.next()}));
    agent.tracer->export_to(*exports_.back());
  }
}

void TraceExporter::start() {
  SIMM_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { work(); });
  look();
}

void TraceExporter::stop() {
  if (!thread_.joinable()) return;
  timer_.cancel();
  collect();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TraceExporter::look() {
  collect();
  timer_.after(kLookNs, [this] { look(); });
}

void TraceExporter::collect() {
  std::uint64_t over_rate = 0;
  std::uint64_t no_room = 0;
  std::vector<ToldTrace> told;
  for (const auto& from : exports_) {
    base::ExportedTrace trace;
    while (from->records.try_pop(trace)) {
      told.push_back(
          {trace, setup_.names.tenant(trace.record.tenant), setup_.names.peer(trace.record.peer)});
    }
    over_rate += loaded(from->over_rate);
    no_room += loaded(from->no_room);
  }
  counters_.dropped_for(TraceDropped::over_rate).set(over_rate);
  std::uint64_t left_out = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (ToldTrace& each : told) {
      if (waiting_.size() < kTracesWaitingMax) {
        waiting_.push_back(std::move(each));
      } else {
        ++left_out;
      }
    }
    counters_.exported.set(exported_);
    counters_.dropped_for(TraceDropped::refused).set(refused_);
  }
  left_out_ += left_out;
  counters_.dropped_for(TraceDropped::no_room).set(no_room + left_out_);
  if (!told.empty()) changed_.notify_all();
}

void TraceExporter::work() {
  ::pthread_setname_np(::pthread_self(), "simm-traces");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::size_t count = std::min(waiting_.size(), kTracesInPostMax);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
    const std::vector<ToldTrace> told(std::make_move_iterator(waiting_.begin()),
                                      std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    lock.unlock();
    const bool is_taken = send(told);
    lock.lock();
    (is_taken ? exported_ : refused_) += count;
    if (is_taken) continue;
    // At the end nobody waits for a receiver that does not take them.
    const auto pause = std::chrono::nanoseconds(kPauseNs);
    if (changed_.wait_for(lock, pause, [this] { return is_stopping_; })) return;
  }
}

bool TraceExporter::send(const std::vector<ToldTrace>& told) {
  const std::uint64_t offset_ns = base::wall_time_ns() - setup_.clock.now_ns();
  http::HttpAnswer answer;
  http::HttpFailure failure;
  const http::HttpRequest request{kPath, otlp_text(told, setup_.names.daemon, offset_ns), {}};
  std::string why;
  if (!client_->post(to_, request, kAnswerNs, answer, failure)) {
    why = unreached(to_, setup_.config.trace.ca_file, failure);
    // For the next post, if the file has been mended.
    if (failure.cause == http::HttpCause::untrusted) (void)client_->read_again();
  } else if (answer.status < 200 || answer.status >= 300) {
    why = to_.text() + ": status " + std::to_string(answer.status);
  } else if (const std::uint64_t rejected = rejected_spans(answer.body); rejected != 0) {
    why = to_.text() + ": rejected " + std::to_string(rejected) + " spans";
  }
  const bool was_failing = std::exchange(is_failing_, !why.empty());
  if (is_failing_ && !was_failing) {
    setup_.log.warning("traces", "the receiver of trace.endpoint takes none, they are dropped",
                       {{"why", why}});
  } else if (!is_failing_ && was_failing) {
    setup_.log.info("traces", "the receiver of trace.endpoint takes them again");
  }
  return why.empty();
}

}  // namespace simm::traces
