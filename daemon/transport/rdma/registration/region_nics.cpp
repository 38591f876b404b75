#include "daemon/transport/rdma/registration/region_nics.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::transport {

RailSet rails_near(const NicTable& table, const std::vector<std::size_t>& rails,
                   std::int32_t node) {
  // Memory whose node is not known would be pinned by every NIC of the host: it waits until one is
  // to move its bytes.
  if (node < 0 && table.nodes().size() > 1) return 0;
  const std::vector<std::size_t> near = table.near_node(node);
  RailSet set = 0;
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    const bool is_near = std::find(near.begin(), near.end(), rails[rail]) != near.end();
    if (is_near) set |= RailSet{1} << rail;
  }
  return set;
}

RegionNics::RegionNics(ChunkRegistrar& registrar, NicTable table, std::vector<std::size_t> rails)
    : registrar_(registrar), table_(std::move(table)), rails_(std::move(rails)) {
  SIMM_CHECK(rails_.size() == registrar_.rails());
}

std::unique_ptr<memory::RegionKeys> RegionNics::attach(const memory::Region& region) {
  RangeSpec spec;
  spec.memory.base = region.base;
  spec.memory.bytes = region.length;
  spec.access = RemoteAccess::read_write;
  spec.background = rails_near(table_, rails_, region.numa_node);
  spec.pages = region.pages;
  return registrar_.add(spec);
}

}  // namespace simm::transport
