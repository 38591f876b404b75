// GpuLease: memory of one GPU that a client does not need for a while. The client has freed it; the
// tier of that GPU (gpu_tier.h) may be larger by as much. What is lent is room, no handle: nobody
// but the helper ever maps it, so it comes back without anybody's help.
//
// GpuOrder: what a helper has to carry out before a lease holds, or before its memory is free
// again. A helper that dies has carried it out, too: its memory is free by then.
//
// Thread: one at a time, any; no call waits for the helper. An order's state: any, no lock.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/memory/gpu/gpu_device.h"

namespace simm::memory {

class GpuOrder {
public:
  enum class State : std::uint8_t {
    pending,
    done,
    lost,  // the helper has died
  };
  GpuOrder() noexcept = default;  // nothing to be done
  [[nodiscard]] State state() const noexcept;

private:
  friend class GpuDevice;
  GpuOrder(std::shared_ptr<GpuDevice> device, std::uint32_t life, std::uint64_t number) noexcept
      : device_(std::move(device)), life_(life), number_(number) {}
  std::shared_ptr<GpuDevice> device_;
  std::uint32_t life_ = 0;
  std::uint64_t number_ = 0;
};

class GpuLease {
public:
  GpuLease(std::shared_ptr<GpuDevice> device, std::uint64_t tenant, std::uint64_t bytes) noexcept
      : device_(std::move(device)), tenant_(tenant), bytes_(bytes) {}
  // The tier gives the memory back from now on.
  ~GpuLease() { end(); }
  GpuLease(const GpuLease&) = delete;
  GpuLease& operator=(const GpuLease&) = delete;

  // The helper hears of the lease. When the order is done, fits() may be asked.
  [[nodiscard]] GpuOrder begin();
  // Whether the GPU has as much memory to spare as is lent: by this lease, and by those that came
  // before it and hold. ok, or out_of_memory. Asked once.
  [[nodiscard]] Outcome fits() const;
  // The lease is over. When the order is done the memory is free again.
  [[nodiscard]] GpuOrder reclaim();

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const GpuUuid& uuid() const noexcept { return device_->uuid(); }

private:
  friend class GpuDevice;
  enum class Verdict : std::uint8_t { open, holds, refused };
  void end() noexcept;

  const std::shared_ptr<GpuDevice> device_;
  const std::uint64_t tenant_;
  const std::uint64_t bytes_;
  bool is_over_ = false;
  Verdict verdict_ = Verdict::open;  // under the device's lock
};

}  // namespace simm::memory
