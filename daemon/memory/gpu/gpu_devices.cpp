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
  const GpuTierSize tier = [this] {
    const std::lock_guard lock(mutex_);
    return tier_;
  }();
  Expected<std::shared_ptr<GpuDevice>> device =
      GpuDevice::start(keeper_, uuid, arena_, pins_arena_, tier, seen_);
  if (!device) {
    on_failed_open(tenant);
    return device;
  }
  const std::lock_guard lock(mutex_);
  // An order for all tiers may have come while the helper started.
  (*device)->resize_tier(tier_.bytes);
  for (const std::shared_ptr<GpuDevice>& other : devices_) {
    other->meet(*device);
    (*device)->meet(other);
  }
  devices_.push_back(*device);
  return device;
}

Expected<std::unique_ptr<GpuLease>> GpuDevices::lend(const GpuUuid& uuid, std::uint64_t tenant,
                                                     std::uint64_t bytes,
                                                     std::uint64_t tenant_bytes_max) {
  for (const std::shared_ptr<GpuDevice>& device : devices_) {
    if (device->uuid() == uuid) return device->lend(tenant, bytes, tenant_bytes_max);
  }
  return Error{Status::unsupported, "no client has memory on this GPU: register some of it first"};
}

std::vector<GpuView> GpuDevices::views() const {
  const std::lock_guard lock(mutex_);
  std::vector<GpuView> all;
  for (const std::shared_ptr<GpuDevice>& device : devices_) all.push_back(device->view());
  return all;
}

bool GpuDevices::resize_tier(std::size_t gpu, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (gpu >= devices_.size()) return false;
  devices_[gpu]->resize_tier(bytes);
  return true;
}

void GpuDevices::resize_tiers(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  tier_.bytes = bytes;
  for (const std::shared_ptr<GpuDevice>& device : devices_) device->resize_tier(bytes);
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
