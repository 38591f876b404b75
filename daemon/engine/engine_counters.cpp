#include "daemon/engine/engine_counters.h"

#include <string>

namespace simm::engine {
namespace {

constexpr std::array<std::string_view, ipc::kOpcodeCount> kOpcodeNames = {
    "noop", "put", "get", "exists", "remove", "pin", "unpin"};
constexpr std::array<std::string_view, kPageOutcomeCount> kOutcomeNames = {
    "ok",          "exists",      "not_found", "size_mismatch", "corrupt",
    "unreachable", "wrong_epoch", "timeout",   "no_space",      "failed"};

// What an operation can not end with is counted as failed, and has no counter of its own.
bool can_end_with(ipc::Opcode opcode, PageOutcome outcome) noexcept {
  switch (outcome) {
    case PageOutcome::exists:
      return opcode == ipc::Opcode::put;
    case PageOutcome::no_space:
      return opcode == ipc::Opcode::put || opcode == ipc::Opcode::pin;
    case PageOutcome::size_mismatch:
    case PageOutcome::corrupt:
      return opcode == ipc::Opcode::get;
    case PageOutcome::not_found:
      return opcode != ipc::Opcode::put;
    default:
      return true;
  }
}

EngineCounters::OfOpcode counters_of(base::CounterSet& set, const std::string& engine,
                                     ipc::Opcode opcode) {
  const auto index = static_cast<std::size_t>(opcode);
  const std::string name = engine + ".op." + std::string(kOpcodeNames[index]);
  EngineCounters::OfOpcode result;
  result.batches = set.counter(name + ".batches");
  result.bytes = set.counter(name + ".bytes");
  for (std::size_t i = 0; i < kPageOutcomeCount; ++i) {
    const bool possible = can_end_with(opcode, static_cast<PageOutcome>(i));
    const std::string_view outcome = possible ? kOutcomeNames[i] : "failed";
    result.pages[i] = set.counter(name + ".pages." + std::string(outcome));
  }
  return result;
}

}  // namespace

PageOutcome page_outcome(Status answer) noexcept {
  switch (answer) {
    case Status::ok:
      return PageOutcome::ok;
    case Status::exists:
      return PageOutcome::exists;
    case Status::not_found:
      return PageOutcome::not_found;
    case Status::size_mismatch:
      return PageOutcome::size_mismatch;
    case Status::corrupt:
      return PageOutcome::corrupt;
    case Status::unreachable:
      return PageOutcome::unreachable;
    case Status::wrong_epoch:
      return PageOutcome::wrong_epoch;
    case Status::timeout:
    case Status::cancelled:
      return PageOutcome::timeout;
    case Status::no_space:
      return PageOutcome::no_space;
    default:
      return PageOutcome::failed;
  }
}

EngineCounters::EngineCounters(base::CounterSet& set, std::string_view prefix) {
  set.begin_writer();
  const std::string name(prefix);
  batches = set.counter(name + ".batches");
  pages = set.counter(name + ".pages");
  bytes_moved = set.counter(name + ".bytes_moved");
  pool_exhausted = set.counter(name + ".pool_exhausted");
  no_credit = set.counter(name + ".no_credit");
  unreachable = set.counter(name + ".unreachable");
  requests = set.counter(name + ".requests");
  extended = set.counter(name + ".extended");
  cancels = set.counter(name + ".cancels");
  resets = set.counter(name + ".resets");
  retries = set.counter(name + ".retries");
  reroutes = set.counter(name + ".reroutes");
  declined = set.counter(name + ".declined");
  timeouts = set.counter(name + ".timeouts");
  late_replies = set.counter(name + ".late_replies");
  bad_replies = set.counter(name + ".bad_replies");
  corrupt = set.counter(name + ".corrupt");
  size_mismatches = set.counter(name + ".size_mismatches");
  fences_overdue = set.counter(name + ".fences_overdue");
  // A noop has neither pages nor bytes, and never comes here.
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get, ipc::Opcode::exists,
                                   ipc::Opcode::remove, ipc::Opcode::pin, ipc::Opcode::unpin}) {
    of_opcode[static_cast<std::size_t>(opcode)] = counters_of(set, name, opcode);
  }
  complete_ns = base::Histogram(set, name + ".complete_ns");
  post_stage_ns = base::Histogram(set, name + ".stage.post_ns");
  wire_stage_ns = base::Histogram(set, name + ".stage.wire_ns");
  complete_stage_ns = base::Histogram(set, name + ".stage.complete_ns");
}

}  // namespace simm::engine
