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
  if (!device) return device;
  const std::lock_guard lock(mutex_);
  devices_.push_back(*device);
  return device;
}

std::vector<GpuView> GpuDevices::views() const {
  const std::lock_guard lock(mutex_);
  std::vector<GpuView> all;
  for (const std::shared_ptr<GpuDevice>& device : devices_) all.push_back(device->view());
  return all;
}

void GpuDevices::maintain() {
  for (const std::shared_ptr<GpuDevice>& device : devices_) device->maintain();
}

}  // namespace simm::memory
