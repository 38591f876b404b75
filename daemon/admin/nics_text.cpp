#include "daemon/admin/nics_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/base/json_text.h"

namespace simm::control {

using nlohmann::ordered_json;

namespace {

// A port that is not used has no rail, and all its bytes are 0.
void add_rail(ordered_json& row, const std::string& name,
              const std::vector<transport::RailProgress>& rails) {
  const auto found = std::find_if(rails.begin(), rails.end(),
                                  [&name](const auto& rail) { return rail.name == name; });
  const bool is_known = found != rails.end();
  const transport::RailProgress progress = is_known ? *found : transport::RailProgress{.state = {}};
  const bool is_rail = is_known && progress.state != "unusable";
  row["rail"] = is_rail ? found - rails.begin() : -1;
  row["rail_state"] = progress.state;
  row["rail_trouble"] = progress.trouble;
  row["registered_bytes"] = progress.registered_bytes;
  row["waiting_bytes"] = progress.waiting_bytes();
  row["failed_bytes"] = progress.failed_bytes;
  row["wanted_bytes"] = progress.wanted_bytes;
}

}  // namespace

std::string nics_text(const transport::NicTable& table,
                      const std::vector<transport::RailProgress>& rails) {
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
                   {"used", nic.is_chosen}});
    add_rail(all.back(), nic.name(), rails);
    all.back()["configured"] = nic.configured;
    all.back()["problem"] = nic.problem;
    all.back()["left_out"] = nic.left_out;
  }
  for (const std::int32_t node : table.nodes()) {
    for (const std::size_t nic : table.near_node(node)) all[nic]["near_nodes"].push_back(node);
  }
  for (std::size_t gpu = 0; gpu < table.gpus().size(); ++gpu) {
    for (const std::size_t nic : table.near_gpu(gpu)) {
      all[nic]["near_gpus"].push_back(table.gpus()[gpu].pci_address);
    }
  }
  return base::json_text(all);
}

}  // namespace simm::control
