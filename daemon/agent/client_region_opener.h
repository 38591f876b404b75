// ClientRegionOpener: the RegionOpener of a running daemon: the memory module's registrar, with the
// privileged helper when there is one.
// Thread: registrar and adopter, see RegionOpener.
#pragma once

#include <cstddef>
#include <cstdint>
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
  Expected<std::unique_ptr<memory::GpuLease>> lend(const memory::GpuUuid& uuid,
                                                   base::TenantId tenant,
                                                   std::uint64_t bytes) override {
    if (!gpus_) return RegionOpener::lend(uuid, tenant, bytes);
    return gpus_->lend(uuid, tenant.value, bytes, lend_bytes_max_);
  }
  void maintain() override { registrar_.maintain(); }

  // GPUs that clients have memory on, or had. Thread: any.
  [[nodiscard]] std::vector<memory::GpuView> gpus() const {
    return gpus_ ? gpus_->views() : std::vector<memory::GpuView>();
  }
  // How large the tier of that GPU may be from now on, or of all GPUs. False: there is no such GPU.
  // Thread: any.
  [[nodiscard]] bool resize_gpu_tier(std::optional<std::size_t> gpu, std::uint64_t bytes) {
    if (!gpus_) return false;
    if (gpu) return gpus_->resize_tier(*gpu, bytes);
    gpus_->resize_tiers(bytes);
    return true;
  }

private:
  std::optional<memory::AdoptClient> helper_;
  std::optional<memory::GpuDevices> gpus_;
  const std::uint64_t lend_bytes_max_;  // of a tenant and a GPU
  memory::RegionRegistrar registrar_;
};

}  // namespace simm
