// TraceRecorder: `simmctl trace` at the daemon: has every data agent record some of its operations
// for a while, collects what they record, and answers with all of it. One trace at a time; it ends
// by itself.
// Owned by the composition root; the agents outlive its use. Thread: control.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/random.h"
#include "daemon/base/tracer.h"
#include "daemon/base/waiter.h"
#include "daemon/control/admin_source.h"
#include "daemon/control/deadline.h"

namespace simm::control {

// One data agent as tracing sees it.
struct AgentTracing {
  base::Tracer* tracer = nullptr;
  base::Waiter* waiter = nullptr;
};

class TraceRecorder {
public:
  static constexpr std::uint64_t kTraceMsMax = 60'000;
  static constexpr std::size_t kTraceRecordsKept = 50'000;  // of one trace; more are counted only

  // What records say by number, in words.
  struct Names {
    std::string daemon;                                // "node node-1"
    std::function<std::string(std::uint64_t)> tenant;  // by id
    std::function<std::string(std::uint32_t)> peer;    // by number
  };

  // `samples_requests`: this daemon has no clients, and samples what others ask.
  TraceRecorder(boost::asio::io_context& io, const base::Clock& clock, base::Random& random,
                std::vector<AgentTracing> agents, Names names, bool samples_requests);
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  // `argument`: JSON, {"ms": how long, "one_in": of so many, "seed": optional}. Answers when the
  // trace is over, with JSON: what the daemon is, how much was sampled, and the records.
  void record(std::string_view argument, AdminAnswer answer);
  // Nobody is recorded any more; what was asked is answered with an error.
  void stop();

private:
  enum class Phase : std::uint8_t { idle, recording, finishing, letting_go };
  struct Kept {
    std::size_t agent = 0;
    base::TraceRecord record;
  };

  void look();
  void collect();
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] bool is_let_go() const;
  [[nodiscard]] std::string report() const;

  const base::Clock& clock_;
  base::Random& random_;
  const std::vector<AgentTracing> agents_;
  const Names names_;
  const bool samples_requests_;
  Phase phase_ = Phase::idle;
  std::vector<std::unique_ptr<base::TraceRun>> runs_;  // by agent; of the trace under way
  std::vector<Kept> kept_;
  std::uint64_t left_out_ = 0;
  std::uint32_t one_in_ = 1;
  base::TimeNs until_ns_ = 0;
  AdminAnswer answer_;
  Deadline timer_;
};

}  // namespace simm::control
