// RegionKeys: what NICs know of a region, so that they can move its bytes. RegionAttach: who makes
// that for new regions. Seam: the RDMA transport implements both; where there are no NICs there is
// neither. This module only keeps the keys as long as the region's mapping.
#pragma once

#include <memory>

namespace simm::memory {

struct Region;

// Destroying it takes the region away from all NICs and returns when they have let it go. So that
// is done when no operation names the region any more, before its memory is unmapped.
// Thread: destroyed on control/registrar; what an implementation offers data agents it says.
class RegionKeys {
public:
  virtual ~RegionKeys() = default;
  RegionKeys(const RegionKeys&) = delete;
  RegionKeys& operator=(const RegionKeys&) = delete;

protected:
  RegionKeys() = default;
};

class RegionAttach {
public:
  virtual ~RegionAttach() = default;
  // For a mapped region that is complete but for its keys. Returns at once: NICs learn of it later.
  // Thread: registrar.
  virtual std::unique_ptr<RegionKeys> attach(const Region& region) = 0;
};

}  // namespace simm::memory
