#include "daemon/control/nics_text.h"

#include <nlohmann/json.hpp>

namespace simm::control {

using nlohmann::ordered_json;

std::string nics_text(const transport::NicTable& table) {
  ordered_json all = ordered_json::array();
  for (const transport::Nic& nic : table.nics()) {
    all.push_back({{"nic", nic.device},
                   {"port", nic.port},
                   {"net_device", nic.net_device},
                   {"state", transport::nic_state_name(nic.state)},
                   {"link", transport::link_layer_name(nic.link_layer)},
                   {"mbit_s", nic.speed_mbit_s},
                   {"numa_node", nic.numa_node},
                   {"pci", nic.pci_path.empty() ? "" : nic.pci_path.back()},
                   {"near_nodes", ordered_json::array()},
                   {"near_gpus", ordered_json::array()},
                   {"used", nic.is_chosen},
                   {"configured", nic.configured},
                   {"problem", nic.problem}});
  }
  for (const std::int32_t node : table.nodes()) {
    for (const std::size_t nic : table.near_node(node)) all[nic]["near_nodes"].push_back(node);
  }
  for (std::size_t gpu = 0; gpu < table.gpus().size(); ++gpu) {
    for (const std::size_t nic : table.near_gpu(gpu)) {
      all[nic]["near_gpus"].push_back(table.gpus()[gpu].pci_address);
    }
  }
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace simm::control
