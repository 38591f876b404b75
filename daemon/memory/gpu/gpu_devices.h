// GpuDevices: the GPUs of this host that clients have memory on, each with its helper. One is
// opened when a client registers memory of it first. Thread: the adopter; views(): any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/memory/gpu/gpu_device.h"
#include "daemon/memory/gpu/gpu_keeper.h"
#include "daemon/memory/gpu/gpu_lease.h"
#include "daemon/memory/helper/foreign_arena.h"
#include "ipc/fd_socket.h"
#include "simm/expected.h"

namespace simm::memory {

class GpuDevices {
public:
  static constexpr std::size_t kDevicesMax = 64;
  // A GPU that can not be opened costs a helper that lives for a moment. A tenant has so many of
  // them at once, and one more after so many looks. No host has more GPUs.
  static constexpr std::uint32_t kFailedOpensMax = 16;
  static constexpr std::uint32_t kForgiveLooks = 1'000;

  // `keeper`: its socket. `arena`: the pool's, outlives this and every import. `pins_arena`: the
  // pool is in memory anyway, so the driver may pin it, which makes copies out of it faster.
  // `tier`: of each GPU.
  GpuDevices(ipc::FdSocket keeper, const ForeignArena& arena, bool pins_arena,
             GpuTierSize tier = {})
      : keeper_(std::move(keeper)), arena_(arena), pins_arena_(pins_arena), tier_(tier) {}

  // unsupported, with the reason: this host has no such GPU, or no driver. out_of_memory: no more
  // are opened, or this tenant had all its tries. Waits for the helper.
  Expected<std::shared_ptr<GpuDevice>> open(const GpuUuid& uuid, std::uint64_t tenant);

  // GpuDevice::lend() of a GPU that is open. unsupported: it is not.
  Expected<std::unique_ptr<GpuLease>> lend(const GpuUuid& uuid, std::uint64_t tenant,
                                           std::uint64_t bytes, std::uint64_t tenant_bytes_max);

  // A look: GpuDevice::maintain() of all.
  void maintain();

  // Those that are open, in the order in which they were opened: the place is the GPU's number.
  [[nodiscard]] std::vector<GpuView> views() const;

  // How large the tier of a GPU, by its number, may be from now on. False: there is no such GPU.
  // Thread: any.
  [[nodiscard]] bool resize_tier(std::size_t gpu, std::uint64_t bytes);
  // That of all GPUs, and of those that are opened from now on. Thread: any.
  void resize_tiers(std::uint64_t bytes);

private:
  // Of a tenant, while there are any.
  struct FailedOpens {
    std::uint64_t tenant;
    std::uint32_t count;
    std::uint32_t looks;  // since the last one was forgiven
  };
  void on_failed_open(std::uint64_t tenant);
  void forgive();

  GpuKeeper keeper_;
  const ForeignArena arena_;
  const bool pins_arena_;
  const std::shared_ptr<GpuNodeSeen> seen_ = std::make_shared<GpuNodeSeen>();
  GpuTierSize tier_;  // under the mutex
  // The adopter alone adds to the devices, and so needs it for that alone.
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<GpuDevice>> devices_;
  std::vector<FailedOpens> failed_opens_;  // as many as tenants at most
};

}  // namespace simm::memory
