// What `simmctl nics` is told: a row for each port of an RDMA device, with the memory that it is
// nearest to, and what of it the configuration says. Thread: control.
#pragma once

#include <string>

#include "daemon/transport/rdma/nic_table.h"

namespace simm::control {

std::string nics_text(const transport::NicTable& table);

}  // namespace simm::control
