// RegionOpener: makes a Region of what a client asks for. Seam: the daemon's implementation uses
// the memory module and the adopt helper.
// Thread: open() runs on the registrar thread, and so does the destruction of what it made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/memory/pin_budget.h"
#include "daemon/memory/region_memory.h"
#include "daemon/memory/touch_budget.h"
#include "ipc/control_message.h"
#include "ipc/fd.h"
#include "ipc/peer_identity.h"
#include "simm/expected.h"

namespace simm::control {

// What the regions of one session may cost. Outlives them.
struct RegionBudgets {
  RegionBudgets(const std::string& name, std::uint64_t map_bytes_max, std::uint64_t regions_max,
                std::uint64_t touch_bytes_max)
      : pins(name, map_bytes_max, regions_max), touches(touch_bytes_max) {}
  memory::PinBudget pins;
  memory::TouchBudget touches;
};

struct RegionRequest {
  ipc::RegisterRegion wanted;
  ipc::UniqueFd fd;                         // valid when wanted.has_fd
  const ipc::PeerIdentity* peer = nullptr;  // valid during the call
  std::shared_ptr<RegionBudgets> budgets;
  std::uint64_t session_id = 0;
};

struct RegionAnswer {
  Status status = Status::ok;
  ipc::RegionRequestKind kind = ipc::RegionRequestKind::staged;
  std::string reason;                            // which kind, and why
  std::unique_ptr<memory::RegionMemory> memory;  // null when staged or refused
};

class RegionOpener {
public:
  virtual ~RegionOpener() = default;
  virtual RegionAnswer open(RegionRequest request) = 0;
};

}  // namespace simm::control
