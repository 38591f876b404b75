// RegionNics: tells NICs of the regions of clients. Those near to a region's memory register it in
// the background; the others when one of them is to move its bytes.
// Owned by the composition root; outlives the regions. Thread: registrar.
#pragma once

#include <memory>
#include <vector>

#include "daemon/memory/region_keys.h"
#include "daemon/transport/rdma/device/nic_table.h"
#include "daemon/transport/rdma/registration/chunk_registrar.h"

namespace simm::transport {

// The rails that are near to memory of a node. `rails`: the index in the table of each.
RailSet rails_near(const NicTable& table, const std::vector<std::size_t>& rails, std::int32_t node);

class RegionNics final : public memory::RegionAttach {
public:
  // `rails`: those of the registrar, in its order.
  RegionNics(ChunkRegistrar& registrar, NicTable table, std::vector<std::size_t> rails);

  std::unique_ptr<memory::RegionKeys> attach(const memory::Region& region) override;

private:
  ChunkRegistrar& registrar_;
  const NicTable table_;
  const std::vector<std::size_t> rails_;
};

}  // namespace simm::transport
