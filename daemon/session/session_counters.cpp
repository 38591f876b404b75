#include "daemon/session/session_counters.h"

namespace simm::session {

std::string_view poison_reason_name(ipc::PoisonReason reason) noexcept {
  using ipc::PoisonReason;
  switch (reason) {
    case PoisonReason::none:
      return "none";
    case PoisonReason::ring_cursor:
      return "ring_cursor";
    case PoisonReason::completion_overflow:
      return "completion_overflow";
    case PoisonReason::bad_submission:
      return "bad_submission";
    case PoisonReason::bad_descriptor:
      return "bad_descriptor";
    case PoisonReason::bad_message:
      return "bad_message";
    case PoisonReason::bad_descriptor_passing:
      return "bad_descriptor_passing";
    case PoisonReason::region_fault:
      return "region_fault";
    case PoisonReason::handshake_timeout:
      return "handshake_timeout";
  }
  return "unknown";
}

std::array<std::string_view, ipc::kPoisonReasonCount> poison_reasons() noexcept {
  std::array<std::string_view, ipc::kPoisonReasonCount> names;
  for (std::uint32_t reason = 1; reason < ipc::kPoisonReasonCount; ++reason) {
    names[reason] = poison_reason_name(static_cast<ipc::PoisonReason>(reason));
  }
  return names;
}

}  // namespace simm::session
