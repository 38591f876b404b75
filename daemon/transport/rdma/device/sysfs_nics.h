// Reads the NICs, GPUs and NUMA nodes of this host from sysfs. Only small files that the kernel
// writes are read, nothing is opened or asked for that needs a right or a library, so it works
// where verbs do not. What is missing or not understood is "unknown", never a failure: a device
// may go away between two reads.
//
// Source of the layout: Documentation/ABI/stable/sysfs-class-infiniband of the kernel; class and
// vendor codes of GPUs: the PCI ID database.
// Thread: control (some dozens of short reads).
#pragma once

#include <string>

#include "daemon/transport/rdma/device/nic_table.h"

namespace simm::transport {

// `root`: where sysfs is; tests have trees of their own. NICs are in the order of their names, as a
// person counts (mlx5_2 before mlx5_10).
NicTable read_nics(const std::string& root = "/sys");

}  // namespace simm::transport
