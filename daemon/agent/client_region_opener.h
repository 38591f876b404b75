// ClientRegionOpener: the RegionOpener of a running daemon: the memory module's registrar, with the
// privileged helper when there is one.
// Thread: registrar and adopter, see RegionOpener.
#pragma once

#include <optional>
#include <vector>

#include "daemon/attach/region_opener.h"
#include "daemon/attach/tenant_rules.h"
#include "daemon/base/config.h"
#include "daemon/memory/gpu/gpu_devices.h"
#include "daemon/memory/helper/adopt_client.h"
#include "daemon/memory/helper/helper_link.h"
#include "daemon/memory/region_registrar.h"

namespace simm {

class ClientRegionOpener final : public control::RegionOpener {
public:
  // `arena`: the pool's, `nics`: of the RDMA ports, or null; they outlive the opener and the
  // regions.
  // `gpu_keeper`: who starts the helpers of GPUs; not valid: there are none.
  ClientRegionOpener(const base::Config& config, const control::TenantRules& tenants,
                     memory::HelperLink helper, ipc::FdSocket gpu_keeper,
                     const memory::ForeignArena& arena, memory::RegionAttach* nics,
                     base::CounterSet& counters);

  control::RegionAnswer open(control::RegionRequest request) override;
  void maintain() override { registrar_.maintain(); }

  // GPUs that clients have memory on, or had. Thread: any.
  [[nodiscard]] std::vector<memory::GpuView> gpus() const {
    return gpus_ ? gpus_->views() : std::vector<memory::GpuView>();
  }

private:
  std::optional<memory::AdoptClient> helper_;
  std::optional<memory::GpuDevices> gpus_;
  memory::RegionRegistrar registrar_;
};

}  // namespace simm
