// What `simmctl nics` is told: a row for each port of an RDMA device, with the memory that it is
// nearest to, how far the memory of this daemon is registered with it, and what of it the
// configuration says. Thread: control.
#pragma once

#include <string>
#include <vector>

#include "daemon/transport/rdma/device/nic_table.h"
#include "daemon/transport/rdma/registration/rail_progress.h"

namespace simm::control {

// `rails`: the ports that this daemon has opened, in their order.
std::string nics_text(const transport::NicTable& table,
                      const std::vector<transport::RailProgress>& rails);

}  // namespace simm::control
