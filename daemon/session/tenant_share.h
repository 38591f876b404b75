// TenantShare: what one tenant may have under way on one data agent, and its turn in the round.
//
// Turns are a surplus round robin (a deficit round robin that charges after the fact, because the
// cost of a submission is known only once it was decoded): every round adds a quantum, a tenant is
// served while its credit is positive, and pays bytes, pages and operations. So a tenant that moves
// large pages and one that floods small operations get the same share. Source: Shreedhar and
// Varghese, "Efficient fair queuing using deficit round robin", 1996.
// Thread: the data agent that owns it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/ids.h"
#include "daemon/base/trace_export.h"
#include "daemon/session/tenant_bandwidth.h"

namespace simm::session {

// What a submission costs besides the bytes that it moves and the bytes of all its keys, in bytes:
// roughly what the same time would copy.
inline constexpr std::uint64_t kOperationCost = 4096;
inline constexpr std::uint64_t kPageCost = 1024;
// Of the operations of a data agent a tenant may have this many times those that nobody uses.
inline constexpr std::uint64_t kShareFactor = 4;
// Credit of one round, and the most that may be saved up: less than the dearest batch without bytes
// costs, so that a tenant waits for one such batch of another one, not for several.
inline constexpr std::int64_t kQuantum = 1 << 20;

struct TenantShare {
  base::TenantId tenant;
  std::uint32_t sessions = 0;
  std::uint64_t bytes_max = 0;
  std::uint32_t operations_max = 0;

  std::uint32_t operations = 0;  // lent from the engine's pool
  std::uint64_t bytes = 0;       // of slices under way
  std::int64_t credit = kQuantum;
  BandwidthTurn bandwidth_turn;  // of a tenant with a limit
  base::TraceAllowance traces;   // that a receiver is told of

  // Of operations of which `unused` are free. What is lent comes back late, so a tenant that has
  // some may have kShareFactor times what then stays free: whoever comes later finds some.
  [[nodiscard]] bool may_borrow(std::uint32_t unused) const noexcept {
    if (operations >= operations_max || unused == 0) return false;
    return operations == 0 || operations + std::uint64_t{1} <= kShareFactor * (unused - 1);
  }
  // A batch larger than the limit itself may go alone.
  [[nodiscard]] bool has_room_for(std::uint64_t more) const noexcept {
    return bytes == 0 || (bytes <= bytes_max && more <= bytes_max - bytes);
  }
  void pay(std::uint64_t cost) noexcept { credit -= static_cast<std::int64_t>(cost); }
  void add_rounds(std::int64_t rounds) noexcept {
    credit = std::min(kQuantum, credit + rounds * kQuantum);
  }
  // Rounds until the credit is positive; 0 when it is.
  [[nodiscard]] std::int64_t rounds_until_turn() const noexcept {
    return credit > 0 ? 0 : -credit / kQuantum + 1;
  }
};

}  // namespace simm::session
