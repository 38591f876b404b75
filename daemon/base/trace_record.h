// TraceRecord: what one operation or request did, stage by stage, and for whom. Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"
#include "ipc/layout.h"

namespace simm::base {

// Stages are told apart by when they end. An operation at the node that its client asked.
enum class OperationStamp : std::uint8_t {
  begun,      // out of its ring
  admitted,   // a place for it was free
  validated,  // its descriptors and keys are copied and checked
  queued,     // its tenant's bytes had room: it is with the engine
  grouped,    // its pages are hashed and sorted by owner
  sent,       // a transport has taken its first message
  answered,   // the last answer is there
  completed,  // the client has its results
};
// A request at the shard that owns its pages.
enum class RequestStamp : std::uint8_t {
  arrived,  // off the wire, or out of a mailbox
  turn,     // its first page was begun
  stored,   // its last page was looked up, or has its room
  moved,    // no bytes are under way any more
  replied,  // the answer is on its way
};
inline constexpr std::size_t kTraceStampsMax = 8;

// The stage that ends at each stamp but the first, for people.
inline constexpr std::array<const char*, 8> kOperationStages = {
    "", "pick up", "validate", "queue", "group", "send", "wait for owner", "complete"};
inline constexpr std::array<const char*, 5> kRequestStages = {"", "receive", "store", "copy",
                                                              "reply"};

// A trace of OpenTelemetry, which spans daemons; all zeros: none.
struct TraceName {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  [[nodiscard]] bool is_set() const noexcept { return (high | low) != 0; }
};

struct TraceRecord {
  std::uint64_t id = 0;  // travels with every message of an operation, to all daemons
  std::uint64_t tenant = 0;
  std::uint64_t bytes = 0;
  std::uint32_t pages = 0;
  std::uint32_t pages_ok = 0;
  std::int32_t status = 0;  // simm::Status: of the whole, or of the first page that was not ok
  std::uint32_t peer = 0;   // of an operation: whom its first message went to
  std::uint8_t opcode = 0;  // ipc::Opcode
  bool is_request = false;  // stamped by RequestStamp, not OperationStamp
  std::array<TimeNs, kTraceStampsMax> stamps_ns{};  // 0: that stage was left out

  template <typename Stamp>
  void stamp(Stamp at, TimeNs now_ns) noexcept {
    stamps_ns[static_cast<std::size_t>(at)] = now_ns;
  }
};

// Of an ipc::Opcode.
constexpr const char* operation_name(std::uint8_t opcode) noexcept {
  switch (static_cast<ipc::Opcode>(opcode)) {
    case ipc::Opcode::noop:
      return "noop";
    case ipc::Opcode::get:
      return "get";
    case ipc::Opcode::put:
      return "put";
    case ipc::Opcode::exists:
      return "exists";
    case ipc::Opcode::remove:
      return "remove";
    case ipc::Opcode::pin:
      return "pin";
    case ipc::Opcode::unpin:
      return "unpin";
  }
  return "unknown";
}

}  // namespace simm::base
