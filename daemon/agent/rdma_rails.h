// RdmaRails: the RDMA ports that this daemon uses, and all memory that is registered with them:
// regions of clients, the pool, the memory of shared reads. A rail is one of those ports, and its
// number here is its number everywhere. Those that can not be opened now are rails, too: they open
// when their link comes up. Owned by DataDaemon; outlives data agents and regions.
// Thread: control and registrar; local() and remote() any data agent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/config.h"
#include "daemon/transport/rdma/device/nic_table.h"
#include "daemon/transport/rdma/device/rail_device.h"
#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/rdma_config.h"
#include "daemon/transport/rdma/registration/chunk_registrar.h"
#include "daemon/transport/rdma/registration/memory_keys.h"
#include "daemon/transport/rdma/registration/region_nics.h"

namespace simm {

class RdmaRails final : public transport::MemoryKeys {
public:
  // `nics`: of this host, as the configuration has chosen them. Null: rdma.mode is off, or "auto"
  // and no port will ever be used (the log says why). Errors: "require", and no port can be used
  // now, or the configuration names one that is not there.
  static Expected<std::unique_ptr<RdmaRails>> open(
      const base::Config& config, const transport::NicTable& nics,
      const transport::RegistrarEnvironment& environment);
  ~RdmaRails() override;
  // Ports open and end by themselves from here on; `changed` is called then, on threads of theirs.
  // Once, when the data agents have their ports. Errors: out_of_memory (no thread).
  Outcome start(const std::function<void()>& changed);
  // Before the data agents go.
  void stop() noexcept;

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
  // By rail; behind them ports that are none, because they can not be used.
  [[nodiscard]] std::vector<transport::RailProgress> progress() const;

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
  // The rail of a port, opened if that is possible now.
  void add(const base::Config& config, const transport::Nic& nic, base::Log& log,
           base::CounterSet& counters);

  std::vector<std::unique_ptr<transport::RailDevice>> devices_;
  std::vector<transport::RailProgress> unusable_;
  std::vector<transport::RailTraits> traits_;
  std::unique_ptr<transport::ChunkRegistrar> registrar_;
  std::unique_ptr<transport::RegionNics> regions_;
  std::span<std::byte> pool_;
  std::unique_ptr<transport::RegisteredRange> pool_range_;  // null: no pool
};

}  // namespace simm
