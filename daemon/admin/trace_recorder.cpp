#include "daemon/admin/trace_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/json_text.h"
#include "ipc/layout.h"

namespace simm::control {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr base::TimeNs kLookNs = 5 * base::kNsPerMs;
// What was begun before the end may go on so long; engine deadlines are longer, but rarely needed.
constexpr base::TimeNs kFinishNs = base::kNsPerSecond;

struct Wanted {
  std::uint64_t ms = 0;
  std::uint32_t one_in = 1;
  std::uint64_t seed = 0;  // 0: any
};

Expected<Wanted> wanted_of(std::string_view argument) {
  const json given = json::parse(argument, nullptr, false);
  const auto number = [&given](const char* name, std::uint64_t otherwise) {
    const auto found = given.is_object() ? given.find(name) : given.end();
    if (found == given.end()) return otherwise;
    return found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  };
  const std::uint64_t ms = number("ms", 0);
  const std::uint64_t one_in = number("one_in", 0);
  if (ms == 0 || ms > TraceRecorder::kTraceMsMax || one_in == 0 || one_in > 0xffff'ffff) {
    return Error{Status::invalid_argument, "trace: write {\"ms\": 1 to " +
                                               std::to_string(TraceRecorder::kTraceMsMax) +
                                               ", \"one_in\": 1 to 4294967295}"};
  }
  return Wanted{ms, static_cast<std::uint32_t>(one_in), number("seed", 0)};
}

std::uint64_t loaded(const std::atomic<std::uint64_t>& counter) noexcept {
  return counter.load(std::memory_order_relaxed);
}

}  // namespace

TraceRecorder::TraceRecorder(boost::asio::io_context& io, const base::Clock& clock,
                             base::Random& random, std::vector<AgentTracing> agents, Names names,
                             bool samples_requests)
    : clock_(clock),
      random_(random),
      agents_(std::move(agents)),
      names_(std::move(names)),
      samples_requests_(samples_requests),
      timer_(io) {}

// The data threads have ended: nobody uses the runs.
TraceRecorder::~TraceRecorder() = default;

void TraceRecorder::record(std::string_view argument, AdminAnswer answer) {
  const auto wanted = wanted_of(argument);
  if (!wanted) return answer(wanted.error());
  if (phase_ != Phase::idle) {
    return answer(Error{Status::invalid_state, "a trace is under way: ask again when it is over"});
  }
  phase_ = Phase::recording;
  one_in_ = wanted->one_in;
  until_ns_ = clock_.now_ns() + wanted->ms * base::kNsPerMs;
  answer_ = std::move(answer);
  kept_.clear();
  left_out_ = 0;
  runs_.clear();
  const std::uint64_t seed = wanted->seed != 0 ? wanted->seed : random_.next();
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
    // So far apart that two agents never hash the same numbers.
    const base::TraceRun::Wish wish{one_in_, seed + (std::uint64_t{agent} << 48), until_ns_,
                                    samples_requests_};
    runs_.push_back(std::make_unique<base::TraceRun>(wish));
    agents_[agent].tracer->order(runs_.back().get());
    agents_[agent].waiter->wake();
  }
  timer_.after(kLookNs, [this] { look(); });
}

void TraceRecorder::look() {
  collect();
  const base::TimeNs now_ns = clock_.now_ns();
  if (phase_ == Phase::recording && now_ns >= until_ns_) phase_ = Phase::finishing;
  if (phase_ == Phase::finishing && (is_complete() || now_ns >= until_ns_ + kFinishNs)) {
    phase_ = Phase::letting_go;
    for (const AgentTracing& agent : agents_) {
      agent.tracer->order(nullptr);
      agent.waiter->wake();
    }
  }
  if (phase_ != Phase::letting_go || !is_let_go()) {
    return timer_.after(kLookNs, [this] { look(); });
  }
  collect();
  const std::string text = report();
  runs_.clear();
  kept_ = {};
  phase_ = Phase::idle;
  std::exchange(answer_, nullptr)(text);
}

void TraceRecorder::collect() {
  for (std::size_t agent = 0; agent < runs_.size(); ++agent) {
    base::TraceRecord record;
    while (runs_[agent]->records.try_pop(record)) {
      if (kept_.size() < kTraceRecordsKept) {
        kept_.push_back({agent, record});
      } else {
        ++left_out_;
      }
    }
  }
}

// Nothing that was chosen is still on its way.
bool TraceRecorder::is_complete() const {
  std::uint64_t sampled = 0;
  std::uint64_t over = left_out_;
  for (const auto& run : runs_) {
    sampled += loaded(run->sampled);
    over += loaded(run->dropped);
  }
  const auto is_chosen_here = [this](const Kept& kept) {
    return kept.record.is_request == samples_requests_;
  };
  over += static_cast<std::uint64_t>(std::count_if(kept_.begin(), kept_.end(), is_chosen_here));
  return over >= sampled;
}

bool TraceRecorder::is_let_go() const {
  return std::all_of(agents_.begin(), agents_.end(),
                     [](const AgentTracing& agent) { return agent.tracer->is_using(nullptr); });
}

void TraceRecorder::stop() {
  timer_.cancel();
  for (const AgentTracing& agent : agents_) agent.tracer->order(nullptr);
  if (answer_) {
    std::exchange(answer_, nullptr)(Error{Status::cancelled, "the daemon stops"});
  }
}

std::string TraceRecorder::report() const {
  std::uint64_t begun = 0;
  std::uint64_t sampled = 0;
  std::uint64_t dropped = left_out_;
  for (const auto& run : runs_) {
    begun += loaded(run->begun);
    sampled += loaded(run->sampled);
    dropped += loaded(run->dropped);
  }
  ordered_json records = ordered_json::array();
  for (const auto& [agent, record] : kept_) {
    records.push_back({{"agent", agent},
                       {"request", record.is_request},
                       {"id", record.id},
                       {"op", base::operation_name(record.opcode)},
                       {"tenant", names_.tenant(record.tenant)},
                       {"pages", record.pages},
                       {"pages_ok", record.pages_ok},
                       {"bytes", record.bytes},
                       {"status", status_name(static_cast<Status>(record.status))},
                       {"peer", record.is_request ? "" : names_.peer(record.peer)},
                       {"stamps_ns", record.stamps_ns}});
  }
  return base::json_text(ordered_json{{"daemon", names_.daemon},
                                      {"pid", ::getpid()},
                                      {"one_in", one_in_},
                                      {"begun", begun},
                                      {"sampled", sampled},
                                      {"dropped", dropped},
                                      {"records", records}});
}

}  // namespace simm::control
