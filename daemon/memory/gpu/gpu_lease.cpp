#include "daemon/memory/gpu/gpu_lease.h"

#include <string>
#include <utility>

namespace simm::memory {

GpuOrder::State GpuOrder::state() const noexcept {
  if (device_ == nullptr) return State::done;
  GpuDevice::Life& life = *device_->lives_[life_ - 1];
  const std::uint64_t done =
      gpu_tier_counts(life.file.data()).order_done.load(std::memory_order_acquire);
  if (done >= number_) return State::done;
  return GpuDevice::is_alive(life) ? State::pending : State::lost;
}

Expected<std::unique_ptr<GpuLease>> GpuDevice::lend(std::uint64_t tenant, std::uint64_t bytes,
                                                    std::uint64_t tenant_bytes_max) {
  if (bytes < kGpuExtentBytes || bytes > tenant_bytes_max) {
    return Error{Status::invalid_argument, "bytes = " + std::to_string(bytes) + ": lend from " +
                                               std::to_string(kGpuExtentBytes) +
                                               " bytes, as the tier takes them at a time, "
                                               "to gpu.lend_bytes_max = " +
                                               std::to_string(tenant_bytes_max)};
  }
  if (!is_alive(*lives_[lives() - 1])) {
    return Error{Status::unreachable,
                 "the helper of this GPU has died: lend again when simmctl gpus shows that "
                 "another one runs"};
  }
  const std::lock_guard lock(lend_mutex_);
  std::uint64_t& lent = lent_by_[tenant];
  if (bytes > tenant_bytes_max - lent) {
    return Error{Status::out_of_memory,
                 "bytes = " + std::to_string(bytes) + ": this tenant lends " +
                     std::to_string(lent) +
                     " bytes of this GPU already, and gpu.lend_bytes_max = " +
                     std::to_string(tenant_bytes_max) + ": reclaim some, or raise it"};
  }
  lent += bytes;
  ++leases_;
  lent_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  order_.fetch_add(1, std::memory_order_release);
  auto lease = std::make_unique<GpuLease>(shared_from_this(), tenant, bytes);
  undecided_.push_back(lease.get());
  return lease;
}

GpuOrder GpuDevice::order_now() {
  const std::uint64_t order = order_.load(std::memory_order_acquire);
  const std::uint32_t number = lives();
  tell_tier(*lives_[number - 1]);
  return {shared_from_this(), number, order};
}

void GpuDevice::end_lease(GpuLease& lease) noexcept {
  {
    const std::lock_guard lock(lend_mutex_);
    const auto found = lent_by_.find(lease.tenant_);
    found->second -= lease.bytes_;
    if (found->second == 0) lent_by_.erase(found);
    --leases_;
    if (lease.verdict_ == GpuLease::Verdict::open) undecided_.remove(&lease);
    if (lease.verdict_ == GpuLease::Verdict::holds) held_bytes_ -= lease.bytes_;
    lent_bytes_.fetch_sub(lease.bytes_, std::memory_order_relaxed);
    order_.fetch_add(1, std::memory_order_release);
  }
  tell_tier(*lives_[lives() - 1]);
}

// The tier's own share counts as well: the memory is there, whoever permits its use.
std::uint64_t GpuDevice::tier_room() const noexcept {
  const GpuTierCounts& counts = gpu_tier_counts(lives_[lives() - 1]->file.data());
  return counts.bytes.load(std::memory_order_relaxed) +
         counts.spare_bytes.load(std::memory_order_relaxed);
}

bool GpuDevice::decide(const GpuLease& lease) noexcept {
  const std::uint64_t room = tier_room();
  const std::lock_guard lock(lend_mutex_);
  while (lease.verdict_ == GpuLease::Verdict::open) {
    GpuLease& next = *undecided_.front();
    undecided_.pop_front();
    const bool holds = held_bytes_ <= room && next.bytes_ <= room - held_bytes_;
    next.verdict_ = holds ? GpuLease::Verdict::holds : GpuLease::Verdict::refused;
    if (holds) held_bytes_ += next.bytes_;
  }
  return lease.verdict_ == GpuLease::Verdict::holds;
}

GpuOrder GpuLease::begin() {
  return device_->order_now();
}

Outcome GpuLease::fits() const {
  if (device_->decide(*this)) return Done{};
  return Error{Status::out_of_memory,
               "bytes = " + std::to_string(bytes_) + ": " +
                   std::to_string(device_->lent_bytes_.load(std::memory_order_relaxed)) +
                   " bytes of this GPU would be lent, and of its memory " +
                   std::to_string(device_->tier_room()) +
                   " are free beyond gpu.reserve_bytes: free the memory first, deregister regions "
                   "of it, then lend"};
}

GpuOrder GpuLease::reclaim() {
  end();
  return device_->order_now();
}

void GpuLease::end() noexcept {
  if (!std::exchange(is_over_, true)) device_->end_lease(*this);
}

}  // namespace simm::memory
