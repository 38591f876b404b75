// What `simmctl nics --check` looks at: the steps of a first hour on a NIC that need no second
// host. Each look says what was found, what is expected, and what to do where the two differ.
// Thread: control (reads sysfs).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/transport/rdma/device/nic_table.h"
#include "daemon/transport/rdma/registration/rail_progress.h"

namespace simm::control {

// What a check knows of the process.
struct NicCheckHost {
  std::string sysfs_root = "/sys";
  std::uint64_t lockable_bytes = ~std::uint64_t{0};  // ~0: no limit
  std::string verbs_trouble;  // why libibverbs can not be used, with the remedy; empty: it can be
};
// Of this process. Loads libibverbs where there is an RDMA device.
[[nodiscard]] NicCheckHost nic_check_host(const std::string& sysfs_root);

struct NicCheck {
  std::string nic;  // "mlx5_0/1"; "host"
  std::string check;
  bool is_fine = false;
  std::string found;
  std::string expected;
  std::string remedy;  // empty where it is fine
};

// Of the host, and of each port that the configuration has chosen. `rails`: of a daemon that uses
// RDMA, else none.
[[nodiscard]] std::vector<NicCheck> check_nics(const transport::NicTable& table,
                                               const std::vector<transport::RailProgress>& rails,
                                               const NicCheckHost& host);
// As rows of JSON.
[[nodiscard]] std::string nic_checks_text(const std::vector<NicCheck>& checks);

}  // namespace simm::control
