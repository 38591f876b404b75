// Placement: which server owns a slot. An immutable table with an epoch; a new map is a new epoch.
// Seam: one daemon alone owns everything; a cluster's table comes from its manager.
// Thread: data agent.
#pragma once

#include "daemon/base/ids.h"
#include "daemon/transport/transport.h"

namespace simm::engine {

class Placement {
public:
  virtual ~Placement() = default;
  virtual base::Epoch epoch() const noexcept = 0;
  virtual transport::Route route(base::Slot slot) const noexcept = 0;
};

}  // namespace simm::engine
