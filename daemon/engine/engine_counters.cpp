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

std::string name_of(ipc::Opcode opcode) {
  return "op." + std::string(kOpcodeNames[static_cast<std::size_t>(opcode)]);
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

std::array<EngineCounters::OfOpcode, ipc::kOpcodeCount> EngineCounters::opcodes() const {
  std::array<OfOpcode, ipc::kOpcodeCount> all;
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get, ipc::Opcode::exists,
                                   ipc::Opcode::remove, ipc::Opcode::pin, ipc::Opcode::unpin}) {
    all[static_cast<std::size_t>(opcode)] = OfOpcode(*this, opcode);
  }
  return all;
}

EngineCounters::OfOpcode::OfOpcode(const CounterGroup& engine, ipc::Opcode opcode)
    : CounterGroup(engine, name_of(opcode), "op") {
  std::array<std::string_view, kPageOutcomeCount> outcomes;
  for (std::size_t i = 0; i < kPageOutcomeCount; ++i) {
    const bool possible = can_end_with(opcode, static_cast<PageOutcome>(i));
    outcomes[i] = possible ? kOutcomeNames[i] : "failed";
  }
  pages = counters("pages.", outcomes, "result",
                   {"simm_pages_total",
                    "Pages of clients' batches by what became of them; of get and exists "
                    "everything from not_found to wrong_epoch is a miss."});
}

}  // namespace simm::engine
