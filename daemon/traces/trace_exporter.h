// TraceExporter: tells a receiver of OpenTelemetry traces of operations that data agents chose
// (trace.endpoint). The control thread collects from the agents, and a thread of this object sends.
// A receiver that refuses, hangs or is slow delays neither: what waits is bounded, and what has no
// place, or is not taken, is dropped and counted. Nothing is sent twice.
// Owned by the composition root. The agents end before it does. Thread: control, but for send().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/admin/trace_recorder.h"
#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/random.h"
#include "daemon/base/trace_export.h"
#include "daemon/control/deadline.h"
#include "daemon/http/http_client.h"
#include "daemon/traces/exporter_counters.h"
#include "daemon/traces/otlp_text.h"

namespace simm::traces {

class TraceExporter {
public:
  static constexpr std::size_t kTracesWaitingMax = 4096;  // collected, and not sent yet
  static constexpr std::size_t kTracesInPostMax = 256;
  static constexpr base::TimeNs kAnswerNs = 2 * base::kNsPerSecond;  // look-up included
  static constexpr base::TimeNs kPauseNs = base::kNsPerSecond;       // after a failure

  struct Setup {
    boost::asio::io_context& io;
    const base::Clock& clock;
    base::Random& random;
    base::CounterSet& counters;
    base::Log& log;
    const base::Config& config;
    control::TraceRecorder::Names names;
  };
  // invalid_argument names the key of the configuration and the remedy. Null: trace.endpoint is
  // empty.
  static Expected<std::unique_ptr<TraceExporter>> make(Setup setup);
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  // Before they run.
  void watch(const std::vector<control::AgentTracing>& agents);
  void start();
  // When the agents have ended: sends what waits, if the receiver takes it at once.
  void stop();

private:
  TraceExporter(Setup setup, http::HttpEndpoint to, std::unique_ptr<http::HttpClient> client);

  void look();
  void collect();
  void work();
  bool send(const std::vector<ToldTrace>& told);

  const Setup setup_;
  const http::HttpEndpoint to_;
  const std::unique_ptr<http::HttpClient> client_;
  ExporterCounters counters_;
  std::vector<std::unique_ptr<base::TraceExport>> exports_;  // by agent
  control::Deadline timer_;
  std::uint64_t left_out_ = 0;  // had no place in waiting_
  bool is_failing_ = false;     // the sending thread's: what the log has said

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<ToldTrace> waiting_;
  std::uint64_t exported_ = 0;
  std::uint64_t refused_ = 0;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace simm::traces
