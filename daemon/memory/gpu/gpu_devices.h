// GpuDevices: the GPUs of this host that clients have memory on, each with its helper. One is
// opened when a client registers memory of it first. Thread: the adopter; views(): any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/memory/gpu/gpu_device.h"
#include "daemon/memory/gpu/gpu_keeper.h"
#include "daemon/memory/helper/foreign_arena.h"
#include "ipc/fd_socket.h"
#include "simm/expected.h"

namespace simm::memory {

class GpuDevices {
public:
  static constexpr std::size_t kDevicesMax = 64;

  // `keeper`: its socket. `arena`: the pool's, outlives this and every import. `pins_arena`: the
  // pool is in memory anyway, so the driver may pin it, which makes copies out of it faster.
  GpuDevices(ipc::FdSocket keeper, const ForeignArena& arena, bool pins_arena) noexcept
      : keeper_(std::move(keeper)), arena_(arena), pins_arena_(pins_arena) {}

  // unsupported, with the reason: this host has no such GPU, or no driver. Waits for the helper.
  Expected<std::shared_ptr<GpuDevice>> open(const GpuUuid& uuid);

  // GpuDevice::maintain() of all.
  void maintain();

  // Those that are open, in the order in which they were opened: the place is the GPU's number.
  [[nodiscard]] std::vector<GpuView> views() const;

private:
  GpuKeeper keeper_;
  const ForeignArena arena_;
  const bool pins_arena_;
  mutable std::mutex mutex_;  // the adopter alone adds to them, and so needs it for that alone
  std::vector<std::shared_ptr<GpuDevice>> devices_;
};

}  // namespace simm::memory
