// ClientRegionOpener: the RegionOpener of a running daemon: tries what a client's memory allows.
// Thread: registrar.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/control/region_opener.h"

namespace simm {

class ClientRegionOpener final : public control::RegionOpener {
public:
  control::RegionAnswer open(control::RegionRequest request) override;

private:
  control::RegionAnswer open_shared(control::RegionRequest& request);

  std::atomic<std::uint64_t> next_region_id_{1};
};

}  // namespace simm
