// VerbsDevice: a port of a real device (or of soft RoCE), opened through libibverbs.
//
// Memory that others may reach is registered under an address drawn by lot, so that neither a
// pointer of this process leaves it nor an address can be guessed. The lot leaves an address where
// it was within 2 MiB: a device that sees another offset there can not use huge pages' one entry
// for all of their small pages.
// Thread: as RdmaDevice says.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/transport/rdma/device/gid_choice.h"
#include "daemon/transport/rdma/device/queue_pair_reaper.h"
#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/device/rdma_device_config.h"
#include "daemon/transport/rdma/device/verbs_handles.h"
#include "daemon/transport/rdma/device/verbs_path.h"

namespace simm::transport {

class VerbsDevice final : public RdmaDevice {
public:
  // Errors: unreachable (no such device, or its port is down), permission_denied,
  // invalid_argument (a value of the configuration), unsupported, io_error.
  static Expected<std::unique_ptr<VerbsDevice>> open(const RdmaDeviceConfig& config,
                                                     const QueuePairReaperReport& report = {});

  [[nodiscard]] const RdmaDeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] QueuePairAddress address() const noexcept override { return place().address; }
  Outcome refresh() override;
  Expected<std::unique_ptr<Registration>> register_memory(const MemoryRange& range,
                                                          RemoteAccess access) override;
  Expected<std::unique_ptr<RdmaPort>> make_port(std::uint32_t completions_max) override;
  [[nodiscard]] DeviceEvent take_event() noexcept override;
  [[nodiscard]] std::string caveat() const override;
  [[nodiscard]] int event_descriptor() const noexcept override { return context_->async_fd; }

  // Where the port is in its network.
  struct Place {
    QueuePairAddress address;
    int gid_index = 0;
    Partition partition;
    bool needs_global_header = false;
  };
  [[nodiscard]] Place place() const noexcept {
    const std::lock_guard<std::mutex> lock(place_mutex_);
    return place_;
  }

  // For its ports and queue pairs.
  [[nodiscard]] const RdmaDeviceConfig& config() const noexcept { return config_; }
  [[nodiscard]] ibv_context* context() const noexcept { return context_.get(); }
  [[nodiscard]] ibv_pd* domain() const noexcept { return domain_.get(); }
  [[nodiscard]] QueuePairReaper& reaper() noexcept { return reaper_; }
  // Of the device's interrupts, the one for another completion queue: in turn, so that not one
  // core hears of everything.
  [[nodiscard]] int next_vector() noexcept {
    const auto vectors = static_cast<std::uint32_t>(std::max(context_->num_comp_vectors, 1));
    return static_cast<int>(vectors_given_++ % vectors);
  }

private:
  VerbsDevice(const RdmaDeviceConfig& config, VerbsHandle<ibv_context> context)
      : config_(config), context_(std::move(context)) {}

  [[nodiscard]] Expected<Place> read_port() const;
  Outcome read_limits();
  Outcome try_queue_pair();
  void try_features();
  [[nodiscard]] bool is_listed() const noexcept;
  // Null: errno says why.
  VerbsHandle<ibv_mr> try_register(const MemoryRange& range, std::uint64_t address, int access);
  Error registration_error(const MemoryRange& range, int errno_value) const;

  const RdmaDeviceConfig config_;
  const VerbsHandle<ibv_context> context_;
  VerbsHandle<ibv_pd> domain_;
  RdmaDeviceInfo info_;
  mutable std::mutex place_mutex_;
  Place place_;
  QueuePairReaper reaper_;
  std::atomic<std::uint32_t> vectors_given_{0};
};

}  // namespace simm::transport
