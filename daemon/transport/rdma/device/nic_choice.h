// What the configuration says of the NICs of this host: which of them are used, and values that
// take the place of those that were found. Thread: any.
#pragma once

#include <string>
#include <vector>

#include "daemon/base/config.h"
#include "daemon/transport/rdma/device/nic_table.h"

namespace simm::transport {

// `wanted` empty: all ports but those that are active and serve another purpose, as their speed or
// their addresses tell (Nic::left_out says how). Else only the NICs that it names are chosen, and
// have its values. What it names and the host has not is a row of its own (NicState::missing), or a
// problem of the row.
NicTable choose_nics(const NicTable& found, const std::vector<base::NicConfig>& wanted);

// The problems of all rows, for people, each with the NIC's name. A daemon that can do without NICs
// goes on with them; one that was told to use RDMA has to refuse to start.
std::vector<std::string> nic_problems(const NicTable& table);

}  // namespace simm::transport
