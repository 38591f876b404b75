// RegionOpener: makes a Region of what a client asks for. Seam: the daemon's implementation uses
// the memory module and the adopt helper.
// Thread: open() runs on the adopter when it asks the helper, else on the registrar, both at once
// for different sessions. What it made is destroyed on one of them: on the adopter when the session
// has private memory, or memory of a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "daemon/base/ids.h"
#include "daemon/memory/gpu/gpu_lease.h"
#include "daemon/memory/pin_budget.h"
#include "daemon/memory/region_memory.h"
#include "daemon/memory/region_registrar.h"
#include "daemon/memory/touch_budget.h"
#include "ipc/control_message.h"
#include "ipc/fd.h"
#include "ipc/peer_identity.h"
#include "simm/expected.h"

namespace simm::control {

// What the regions of one session need and may cost. Outlives them.
struct RegionAccount {
  RegionAccount(ipc::PeerIdentity client, base::TenantId tenant_id, std::uint64_t map_bytes_max,
                std::uint64_t regions_max, std::uint64_t touch_bytes_max, memory::PinBudget& tenant,
                memory::TouchBudget& tenant_touches)
      : peer(std::move(client)),
        pins("session", map_bytes_max, regions_max, &tenant),
        touches(touch_bytes_max, &tenant_touches),
        owner{peer, pins, touches, nullptr, tenant_id.value} {}
  const ipc::PeerIdentity peer;
  memory::PinBudget pins;
  memory::TouchBudget touches;
  memory::RegionOwner owner;  // of one job at a time
};

struct RegionRequest {
  ipc::RegisterRegion wanted;
  ipc::UniqueFd fd;  // valid when wanted.has_fd
  std::shared_ptr<RegionAccount> account;
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
  // Without a file a helper finds the memory, and that of a GPU is mapped by one. It takes
  // milliseconds.
  [[nodiscard]] static bool asks_helper(const ipc::RegisterRegion& wanted) noexcept {
    if (wanted.kind == ipc::RegionRequestKind::gpu) return true;
    return !wanted.has_fd && wanted.kind != ipc::RegionRequestKind::staged;
  }
  // Memory of a GPU that a client lends (session_leases.h). Thread: the adopter.
  virtual Expected<std::unique_ptr<memory::GpuLease>> lend(const memory::GpuUuid&, base::TenantId,
                                                           std::uint64_t /*bytes*/) {
    return Error{Status::unsupported,
                 "gpu.enabled is off in this daemon's configuration: nothing to lend to"};
  }
  // Called now and then on the adopter when helpers copy (memory.foreign, gpu.enabled).
  virtual void maintain() {}
};

}  // namespace simm::control
