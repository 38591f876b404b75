// SimRdmaDevice: a device of a SimRdmaFabric, with its registrations and the numbers of its queue
// pairs. Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/transport/rdma/device/rdma_device.h"

namespace simm::sim {

class SimQueuePair;
class SimRdmaFabric;
class SimRdmaDevice;

struct SimDeviceConfig {
  std::string name = "sim0";
  bool is_ethernet = true;
  std::uint16_t mtu_bytes = 4096;
  std::uint8_t reads_max = 16;
  std::uint32_t queue_pairs_max = 1024;
  std::uint32_t completions_max = 65536;
  std::uint64_t registered_bytes_max = ~std::uint64_t{0};  // what RLIMIT_MEMLOCK is to real ones
  // What leaves its port in a step, of all its queue pairs together; 0: whatever they send.
  std::uint64_t bytes_per_step = 0;
  // How often try_destroy() is true when it is asked.
  std::uint32_t fence_percent = 100;
  transport::RdmaFeatures features;
};

class SimRegistration final : public transport::Registration {
public:
  SimRegistration(SimRdmaDevice& device, std::byte* memory, const transport::MemoryRange& range);
  ~SimRegistration() override;

  SimRdmaDevice& device;
  std::byte* const memory;  // where its first byte is in this process
  const transport::MemoryRange range;
};

class SimRdmaDevice final : public transport::RdmaDevice {
public:
  SimRdmaDevice(SimRdmaFabric& fabric, std::uint32_t index, const SimDeviceConfig& config);
  ~SimRdmaDevice() override;

  [[nodiscard]] const transport::RdmaDeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] transport::QueuePairAddress address() const noexcept override { return address_; }
  Outcome refresh() override { return Done{}; }
  // A dma-buf may be any file that can be mapped.
  Expected<std::unique_ptr<transport::Registration>> register_memory(
      const transport::MemoryRange& range, transport::RemoteAccess access) override;
  Expected<std::unique_ptr<transport::RdmaPort>> make_port(std::uint32_t completions_max) override;

  // A queue pair fails by itself: what is outstanding comes back flushed.
  void fail_queue_pair(std::uint32_t number);
  // The same of one that is drawn; of none when there is none.
  void fail_some_queue_pair();
  void fail_all_queue_pairs();
  // A queue pair takes `works` more works, no receive, and then nothing until allow_posts().
  void refuse_posts(std::uint32_t number, std::size_t works = 0);
  void allow_posts(std::uint32_t number);
  // No fence is done for now: try_destroy() is not true.
  void hold_fences(bool are_held) noexcept { fences_are_held_ = are_held; }

private:
  friend class SimQueuePair;
  friend class SimRdmaFabric;
  friend class SimRdmaPort;
  friend class SimRegistration;

  // Memory of this daemon that a work names; CHECKs that its key covers it.
  std::byte* local(const transport::LocalPart& part) const;
  // Memory that the other end names; null: not with that key, or not all of it.
  std::byte* remote(const transport::RemotePart& part, std::uint64_t bytes) const;
  SimQueuePair& queue_pair(std::uint32_t number);
  std::uint32_t take_number();
  std::uint32_t new_key();

  SimRdmaFabric& fabric_;
  const SimDeviceConfig config_;
  transport::RdmaDeviceInfo info_;
  transport::QueuePairAddress address_;                 // without what is a queue pair's own
  std::map<std::uint32_t, SimQueuePair*> queue_pairs_;  // by number
  std::vector<std::uint32_t> used_numbers_;
  bool fences_are_held_ = false;
  std::uint32_t next_number_ = 17;
  std::map<std::uint32_t, SimRegistration*> by_local_key_;
  std::map<std::uint32_t, SimRegistration*> by_remote_key_;
  std::uint64_t registered_bytes_ = 0;
  std::uint32_t registrations_ = 0;
  std::uint32_t ports_ = 0;
};

}  // namespace simm::sim
