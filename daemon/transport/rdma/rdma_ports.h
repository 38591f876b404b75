// RdmaPorts: the ports of one end of a data agent, one for each rail, with room for all its links.
// Owned by the data agent. Thread: control; made before its links.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/rdma_config.h"
#include "simm/expected.h"

namespace simm::transport {

using RdmaPorts = std::vector<std::unique_ptr<RdmaPort>>;

// `links_max`: queue pairs that are there at one time.
[[nodiscard]] inline Expected<std::unique_ptr<RdmaPort>> make_rdma_port(RdmaDevice& device,
                                                                        std::uint32_t links_max) {
  return device.make_port(links_max * (kWorksMax + kReceives));
}

[[nodiscard]] inline std::vector<RdmaPort*> pointers_to(const RdmaPorts& ports) {
  std::vector<RdmaPort*> all;
  for (const auto& port : ports) all.push_back(port.get());
  return all;
}

}  // namespace simm::transport
