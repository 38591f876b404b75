#include "daemon/memory/gpu/gpu_devices.h"

#include <algorithm>
#include <string>
#include <utility>

namespace simm::memory {

Expected<std::shared_ptr<GpuDevice>> GpuDevices::open(const GpuUuid& uuid, std::uint64_t tenant) {
  for (const std::shared_ptr<GpuDevice>& device : devices_) {
    if (device->uuid() == uuid) return device;
  }
  if (devices_.size() == kDevicesMax) {
    return Error{Status::out_of_memory, "the daemon has too many GPUs open"};
  }
  const bool had_all_tries =
      std::any_of(failed_opens_.begin(), failed_opens_.end(), [&](const FailedOpens& failed) {
        return failed.tenant == tenant && failed.count >= kFailedOpensMax;
      });
  if (had_all_tries) {
    return Error{Status::out_of_memory, "this tenant named " + std::to_string(kFailedOpensMax) +
                                            " GPUs that could not be opened: name one of this "
                                            "host, or try again in ten seconds"};
  }
  Expected<std::shared_ptr<GpuDevice>> device =
      GpuDevice::start(keeper_, uuid, arena_, pins_arena_);
  if (!device) {
    on_failed_open(tenant);
    return device;
  }
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

void GpuDevices::on_failed_open(std::uint64_t tenant) {
  for (FailedOpens& failed : failed_opens_) {
    if (failed.tenant != tenant) continue;
    ++failed.count;
    return;
  }
  failed_opens_.push_back({tenant, 1, 0});
}

void GpuDevices::forgive() {
  for (FailedOpens& failed : failed_opens_) {
    if (++failed.looks < kForgiveLooks) continue;
    failed.looks = 0;
    --failed.count;
  }
  std::erase_if(failed_opens_, [](const FailedOpens& failed) { return failed.count == 0; });
}

void GpuDevices::maintain() {
  forgive();
  for (const std::shared_ptr<GpuDevice>& device : devices_) device->maintain();
}

}  // namespace simm::memory
