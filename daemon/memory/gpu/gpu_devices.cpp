#include "daemon/memory/gpu/gpu_devices.h"

#include <utility>

namespace simm::memory {

Expected<std::shared_ptr<GpuDevice>> GpuDevices::open(const GpuUuid& uuid) {
  for (const std::shared_ptr<GpuDevice>& device : devices_) {
    if (device->uuid() == uuid) return device;
  }
  if (devices_.size() == kDevicesMax) {
    return Error{Status::out_of_memory, "the daemon has too many GPUs open"};
  }
  Expected<std::shared_ptr<GpuDevice>> device =
      GpuDevice::start(keeper_, uuid, arena_, pins_arena_);
  if (device) devices_.push_back(*device);
  return device;
}

void GpuDevices::maintain() {
  for (const std::shared_ptr<GpuDevice>& device : devices_) device->maintain();
}

}  // namespace simm::memory
