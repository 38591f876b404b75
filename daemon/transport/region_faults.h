// RegionFaults: told when a client's memory failed under a copy: it was truncated, punched, or is
// otherwise not what the client promised. Sessions implement it: the owner of the region is
// poisoned (region_fault). Called before the reply that carries the page's transfer_failed.
// Thread: the data agent of the requester.
#pragma once

#include "daemon/memory/region.h"

namespace simm::transport {

class RegionFaults {
public:
  virtual ~RegionFaults() = default;
  // The region is valid during the call.
  virtual void on_region_fault(const memory::Region& region) noexcept = 0;
};

}  // namespace simm::transport
