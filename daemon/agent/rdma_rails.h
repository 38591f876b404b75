// RdmaRails: the RDMA ports that this daemon uses, opened, and all memory that is registered with
// them: regions of clients, the pool, the memory of shared reads. A rail is one of those ports, and
// its number here is its number everywhere. Owned by DataDaemon; outlives data agents and regions.
// Thread: control and registrar; local() and remote() any data agent.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/config.h"
#include "daemon/transport/rdma/device/nic_table.h"
#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/rdma_config.h"
#include "daemon/transport/rdma/registration/chunk_registrar.h"
#include "daemon/transport/rdma/registration/memory_keys.h"
#include "daemon/transport/rdma/registration/region_nics.h"

namespace simm {

class RdmaRails final : public transport::MemoryKeys {
public:
  // `nics`: of this host, as the configuration has chosen them. Null: rdma.mode is off, or "auto"
  // and no port can be used (the log says why). Errors: "require", and no port can be used, or the
  // configuration names one that is not there.
  static Expected<std::unique_ptr<RdmaRails>> open(
      const base::Config& config, const transport::NicTable& nics,
      const transport::RegistrarEnvironment& environment);
  ~RdmaRails() override;

  [[nodiscard]] std::vector<transport::RdmaDevice*> devices() const;
  // By rail, speeds in Mbit/s.
  [[nodiscard]] const std::vector<transport::RailTraits>& traits() const noexcept {
    return traits_;
  }
  // For the regions of clients.
  [[nodiscard]] memory::RegionAttach& regions() noexcept { return *regions_; }
  // Registers the pool, in the background, with all rails. Once, before the data agents run.
  void serve(std::span<std::byte> pool);
  // Whether every byte of the pool can be moved by that rail: all, later, or failed. What has
  // failed is tried again because of this question, as ChunkTable::find() does.
  [[nodiscard]] transport::KeysFound pool_keys(std::size_t rail) const noexcept;
  // Memory of this daemon that other daemons read and write for it; it goes before its end.
  [[nodiscard]] std::unique_ptr<transport::RegisteredRange> add_own(std::span<std::byte> memory);
  [[nodiscard]] std::vector<transport::RailProgress> progress() const {
    return registrar_->progress();
  }

  [[nodiscard]] std::size_t local(
      std::uint16_t rail, std::byte* at, std::uint64_t bytes,
      std::span<transport::LocalPart, transport::Work::kPartsMax> parts) const noexcept override;
  [[nodiscard]] std::size_t remote(
      std::uint16_t rail, const memory::Slice& slice,
      std::span<transport::wire::RemoteTarget, transport::wire::kTargetsOfPageMax> targets)
      const noexcept override;
  [[nodiscard]] transport::KeysFound look(std::uint16_t rail,
                                          const memory::Slice& slice) const noexcept override;

private:
  RdmaRails() = default;

  std::vector<std::unique_ptr<transport::RdmaDevice>> devices_;
  std::vector<transport::RailTraits> traits_;
  std::unique_ptr<transport::ChunkRegistrar> registrar_;
  std::unique_ptr<transport::RegionNics> regions_;
  std::span<std::byte> pool_;
  std::unique_ptr<transport::RegisteredRange> pool_range_;  // null: no pool
};

}  // namespace simm
